#include "store/series_writer.h"

#include <utility>

namespace runner::store {

SeriesWriter::SeriesWriter(Database& database, int64_t run_id) : run_id_(run_id), tables_(database) {
  for (MetricSummary& summary : read_summaries(database, run_id)) stored_[summary.name].summary = std::move(summary);
  // Each attempt starts a new chunk, so that chunks of earlier attempts are never rewritten.
  Statement rows(database,
                 "SELECT name, max(no) + 1 FROM series JOIN chunk ON chunk.series_id = series.id "
                 "WHERE series.run_id = ?1 GROUP BY series.id");
  for (rows.bind(run_id); rows.step();) stored_[rows.text(0)].next_chunk = rows.int64(1);
}

void SeriesWriter::add_series(const std::string& name, std::optional<bool> larger_is_better) {
  series_.push_back(std::move(stored_[name]));
  series_.back().summary.name = name;
  if (larger_is_better) series_.back().summary.larger_is_better = *larger_is_better ? 1 : 0;
}

void SeriesWriter::add(int32_t index, const Point& point) {
  Series& series = series_[static_cast<size_t>(index)];
  series.summary.add(point);
  series.open.push_back(point);
  series.changed = true;
  ++pending_;
  if (series.open.size() == kChunkPoints) {
    series.sealed.push_back({series.next_chunk++, std::exchange(series.open, {})});
  }
}

void SeriesWriter::write() {
  for (const Series& series : series_) {
    if (!series.changed) continue;
    const int64_t id = tables_.put_summary(run_id_, series.summary);
    for (const Chunk& chunk : series.sealed) tables_.put_chunk(id, chunk.no, chunk.points);
    if (!series.open.empty()) tables_.put_chunk(id, series.next_chunk, series.open);
  }
}

void SeriesWriter::committed() {
  for (Series& series : series_) {
    series.sealed.clear();
    series.changed = false;
  }
  pending_ = 0;
}

}  // namespace runner::store
