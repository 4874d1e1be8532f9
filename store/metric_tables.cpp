#include "store/metric_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/ranges.h>
#include <zlib.h>

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

namespace {

// Integers below this magnitude are added without overflow, also in SQL.
constexpr int64_t kExact = int64_t{1} << 53;

int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

int64_t wrapping_difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Evenly spaced numbers. The k-th one is base + k * stride, modulo 2^64.
struct Line {
  int64_t base = 0, stride = 0;

  int64_t at(size_t k) const { return wrapping_sum(base, static_cast<int64_t>(static_cast<uint64_t>(stride) * k)); }
};

// The line through the first and about the last of the points. Most differences from it are 0 or small, so that they
// take few bytes. Numbers that SQL could not add exactly are all of the difference.
Line line_through(std::span<const Point> points, int64_t Point::*number) {
  const auto is_exact = [&](const Point& point) { return point.*number > -kExact && point.*number < kExact; };
  if (!std::ranges::all_of(points, is_exact)) return {};
  const auto intervals = std::max<int64_t>(std::ssize(points) - 1, 1);
  return {points.front().*number, (points.back().*number - points.front().*number) / intervals};
}

// The value as a row holds it: SQLite has one NaN, NULL, and one zero.
double stored_value(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value + 0.0;
}

// Checksum of the decoded points.
int64_t crc_of(std::span<const Point> points) {
  uLong crc = 0;
  for (const Point& point : points) {
    const double value = stored_value(point.value);
    std::array<std::byte, 24> bytes;
    std::memcpy(bytes.data(), &point.step, 8);
    std::memcpy(bytes.data() + 8, &point.time_ms, 8);
    std::memcpy(bytes.data() + 16, &value, 8);
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  return static_cast<int64_t>(crc);
}

constexpr const char* kChunkColumns[] = {"series_id",  "no",          "n",          "max_step",   "crc",
                                         "first_step", "step_stride", "first_time", "time_stride"};
enum ChunkColumn { kSeriesId, kNo, kCount, kMaxStep, kCrc, kFirstStep, kStepStride, kFirstTime, kTimeStride };
constexpr const char* kPointColumnNames[] = {"value", "step", "time"};
enum PointColumn { kValue, kStep, kTime };

// Columns of `chunk`: kChunkColumns, then value_0, …, value_31, step_0, …, time_31.
std::vector<std::string> chunk_columns() {
  std::vector<std::string> columns(std::begin(kChunkColumns), std::end(kChunkColumns));
  for (const char* name : kPointColumnNames)
    for (size_t k = 0; k < kChunkPoints; ++k) columns.push_back(fmt::format("{}_{}", name, k));
  return columns;
}

// Inserts a row of `chunk`, or changes it in place. Parameters: chunk_columns().
std::string put_chunk_sql() {
  const std::vector<std::string> columns = chunk_columns();
  std::vector<std::string> values, changes;
  for (size_t i = 0; i < columns.size(); ++i) {
    values.push_back(fmt::format("?{}", i + 1));
    changes.push_back(fmt::format("{0} = excluded.{0}", columns[i]));
  }
  return fmt::format("INSERT INTO chunk({}) VALUES({}) ON CONFLICT(series_id, no) DO UPDATE SET {}",
                     fmt::join(columns, ", "), fmt::join(values, ", "), fmt::join(changes, ", "));
}

// Number of the parameter or column of point k.
int column_of(size_t k, PointColumn column) {
  return static_cast<int>(std::size(kChunkColumns)) + column * static_cast<int>(kChunkPoints) + static_cast<int>(k);
}

}  // namespace

void fail_damaged_chunk(Database& database, int64_t no, const std::string& metric) {
  fail(ErrorKind::kStore,
       "the store {} is damaged: chunk {} of the points of {} fails its checksum; restore a backup; other metrics can "
       "still be read",
       database.path().string(), no, metric);
}

std::vector<Chunk> read_chunks(Database& database, int64_t run_id, const std::string& metric) {
  std::vector<std::string> columns = chunk_columns();
  for (std::string& column : columns) column.insert(0, "chunk.");
  Statement rows(database, fmt::format("SELECT {} FROM series JOIN chunk ON chunk.series_id = series.id "
                                       "WHERE series.run_id = ?1 AND series.name = ?2 ORDER BY chunk.no",
                                       fmt::join(columns, ", ")));
  std::vector<Chunk> chunks;
  for (rows.bind(run_id, metric); rows.step();) {
    Chunk chunk{rows.int64(kNo), {}};
    const size_t count = std::min(static_cast<size_t>(rows.int64(kCount)), kChunkPoints);
    const Line steps{rows.int64(kFirstStep), rows.int64(kStepStride)};
    const Line times{rows.int64(kFirstTime), rows.int64(kTimeStride)};
    for (size_t k = 0; k < count; ++k)
      chunk.points.push_back({wrapping_sum(steps.at(k), rows.int64(column_of(k, kStep))),
                              wrapping_sum(times.at(k), rows.int64(column_of(k, kTime))),
                              rows.real(column_of(k, kValue))});
    if (count == 0 || crc_of(chunk.points) != rows.int64(kCrc)) fail_damaged_chunk(database, chunk.no, metric);
    chunks.push_back(std::move(chunk));
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
      put_chunk_(database, put_chunk_sql()) {}

int64_t MetricTables::put_summary(int64_t run_id, const MetricSummary& s) {
  put_summary_.bind(run_id, s.name, s.n, s.first_step, s.last_step, s.first, s.last, s.min, s.min_step, s.max,
                    s.max_step, s.sum, s.nan_count, s.inf_count, s.larger_is_better);
  put_summary_.step();
  const int64_t id = put_summary_.int64(0);
  put_summary_.run();
  return id;
}

void MetricTables::put_chunk(int64_t series_id, int64_t no, std::span<const Point> points) {
  RUN_ASSERT(!points.empty() && points.size() <= kChunkPoints);
  const Line steps = line_through(points, &Point::step), times = line_through(points, &Point::time_ms);
  put_chunk_.bind(series_id, no, std::ssize(points), std::ranges::max_element(points, {}, &Point::step)->step,
                  crc_of(points), steps.base, steps.stride, times.base, times.stride);
  for (size_t k = 0; k < points.size(); ++k) {
    put_chunk_.bind_one(column_of(k, kValue), stored_value(points[k].value));
    put_chunk_.bind_one(column_of(k, kStep), wrapping_difference(points[k].step, steps.at(k)));
    put_chunk_.bind_one(column_of(k, kTime), wrapping_difference(points[k].time_ms, times.at(k)));
  }
  put_chunk_.run();
}

void MetricTables::put_lost_chunk(int64_t series_id, int64_t no) {
  put_chunk_.bind(series_id, no, 0, INT64_MIN, 0, 0, 0, 0, 0).run();
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
