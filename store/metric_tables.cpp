#include "store/metric_tables.h"

#include <algorithm>
#include <cmath>

#include "schema/recipe/metric_names.h"

namespace runner::store {

void MetricSummary::add(const Point& point) {
  if (n++ == 0) {
    first_step = point.step;
    first = point.value;
    min_step = max_step = point.step;
  }
  last_step = point.step;
  last = point.value;
  if (std::isnan(point.value)) {
    ++nan_count;
    return;
  }
  if (!(min <= point.value)) {  // true also while min is NaN
    min = point.value;
    min_step = point.step;
  }
  if (!(max >= point.value)) {
    max = point.value;
    max_step = point.step;
  }
  if (std::isinf(point.value)) {
    ++inf_count;
  } else {
    sum += point.value;
  }
}

int64_t max_step(std::span<const Point> points) {
  return std::max_element(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.step < b.step; })
      ->step;
}

bool maximizes(Database& database, const std::string& metric) {
  Statement newest(database,
                   "SELECT larger_is_better FROM series WHERE name = ?1 AND larger_is_better IS NOT NULL "
                   "ORDER BY id DESC LIMIT 1");
  return newest.bind(metric).step() ? newest.int64(0) != 0 : schema::larger_is_better(metric);
}

std::vector<MetricSummary> read_summaries(Database& database, int64_t run_id) {
  Statement rows(database, R"sql(
    SELECT name, n, first_step, last_step, first_value, last_value, min_value, min_step, max_value, max_step,
      sum, nan_count, inf_count, larger_is_better
    FROM series WHERE run_id = ?1 ORDER BY name)sql");
  rows.bind(run_id);
  std::vector<MetricSummary> summaries;
  while (rows.step()) {
    MetricSummary& s = summaries.emplace_back();
    s.name = rows.text(0);
    s.n = rows.int64(1);
    s.first_step = rows.int64(2);
    s.last_step = rows.int64(3);
    s.first = rows.real(4);
    s.last = rows.real(5);
    s.min = rows.real(6);
    s.min_step = rows.int64(7);
    s.max = rows.real(8);
    s.max_step = rows.int64(9);
    s.sum = rows.real(10);
    s.nan_count = rows.int64(11);
    s.inf_count = rows.int64(12);
    s.larger_is_better = rows.optional_int64(13);
  }
  return summaries;
}

std::vector<Chunk> read_chunks(Database& database, int64_t run_id, const std::string& metric) {
  Statement rows(database,
                 "SELECT chunk.no, chunk.data FROM series JOIN chunk ON chunk.series_id = series.id "
                 "WHERE series.run_id = ?1 AND series.name = ?2 ORDER BY chunk.no");
  rows.bind(run_id, metric);
  std::vector<Chunk> chunks;
  while (rows.step()) {
    auto points = decode_points(rows.bytes(1));
    if (!points) {
      fail(ErrorKind::kStore,
           "the store {} is damaged: chunk {} of the points of {} fails its checksum; restore a backup; other metrics "
           "can still be read",
           database.path().string(), rows.int64(0), metric);
    }
    chunks.push_back({rows.int64(0), std::move(*points)});
  }
  return chunks;
}

MetricTables::MetricTables(Database& database)
    : database_(database),
      put_summary_(database, R"sql(
        INSERT INTO series(run_id, name, n, first_step, last_step, first_value, last_value, min_value, min_step,
          max_value, max_step, sum, nan_count, inf_count, larger_is_better)
        VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
        ON CONFLICT(run_id, name) DO UPDATE SET n = ?3, first_step = ?4, last_step = ?5, first_value = ?6,
          last_value = ?7, min_value = ?8, min_step = ?9, max_value = ?10, max_step = ?11, sum = ?12,
          nan_count = ?13, inf_count = ?14, larger_is_better = coalesce(?15, larger_is_better)
        RETURNING id)sql"),
      put_chunk_(database, R"sql(
        INSERT INTO chunk(series_id, no, n, max_step, data) VALUES(?1, ?2, ?3, ?4, ?5)
        ON CONFLICT(series_id, no) DO UPDATE SET n = ?3, max_step = ?4, data = ?5)sql") {}

int64_t MetricTables::put_summary(int64_t run_id, const MetricSummary& s) {
  put_summary_.bind(run_id, s.name, s.n, s.first_step, s.last_step, s.first, s.last, s.min, s.min_step, s.max,
                    s.max_step, s.sum, s.nan_count, s.inf_count, s.larger_is_better);
  put_summary_.step();
  const int64_t id = put_summary_.int64(0);
  put_summary_.run();
  return id;
}

void MetricTables::put_chunk(int64_t series_id, int64_t no, std::span<const Point> points) {
  put_chunk(series_id, no, points.size(), max_step(points), encode_points(points));
}

void MetricTables::put_chunk(int64_t series_id, int64_t no, size_t count, int64_t max_step,
                             std::span<const std::byte> data) {
  put_chunk_.bind(series_id, no, static_cast<int64_t>(count), max_step, data).run();
}

int64_t MetricTables::take_back(int64_t run_id, const SeriesPosition& recorded) {
  Statement rows(database_,
                 "SELECT DISTINCT series.name FROM series JOIN chunk ON chunk.series_id = series.id "
                 "WHERE series.run_id = ?1 AND chunk.max_step > ?2");
  rows.bind(run_id, recorded.time_ms == INT64_MAX ? recorded.step : recorded.step - 1);
  std::vector<std::string> metrics;
  while (rows.step()) metrics.push_back(rows.text(0));
  rows.reset();
  int64_t removed = 0;
  for (const std::string& metric : metrics) removed += take_back(run_id, metric, recorded);
  return removed;
}

int64_t MetricTables::take_back(int64_t run_id, const std::string& metric, const SeriesPosition& recorded) {
  MetricSummary summary;
  summary.name = metric;
  std::vector<Chunk> changed;
  int64_t removed = 0;
  for (Chunk& chunk : read_chunks(database_, run_id, metric)) {
    const auto taken =
        static_cast<int64_t>(std::erase_if(chunk.points, [&](const Point& p) { return !recorded.has(p); }));
    for (const Point& point : chunk.points) summary.add(point);
    if (taken > 0) changed.push_back(std::move(chunk));
    removed += taken;
  }
  if (summary.n == 0) {
    Statement(database_, "DELETE FROM series WHERE run_id = ?1 AND name = ?2").bind(run_id, metric).run();
    return removed;
  }
  const int64_t series_id = put_summary(run_id, summary);
  Statement remove(database_, "DELETE FROM chunk WHERE series_id = ?1 AND no = ?2");
  for (const Chunk& chunk : changed) {
    chunk.points.empty() ? remove.bind(series_id, chunk.no).run() : put_chunk(series_id, chunk.no, chunk.points);
  }
  return removed;
}

}  // namespace runner::store
