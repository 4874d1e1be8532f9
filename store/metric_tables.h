// Metric series in the tables `series` and `chunk`: summaries, reading and writing.
//
// A summary always equals add() applied to the points of the series in the order recorded. Thread safety: as for the
// given Database.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/point.h"
#include "store/sqlite.h"

namespace runner::store {

struct MetricSummary {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string name;
  int64_t n = 0;
  int64_t first_step = 0, last_step = 0;
  double first = kNone, last = kNone;
  double min = kNone, max = kNone;  // of the points that are not NaN; NaN if there are none
  int64_t min_step = 0, max_step = 0;
  double sum = 0;  // of the finite points, added in the order recorded
  int64_t nan_count = 0, inf_count = 0;
  std::optional<int64_t> larger_is_better = std::nullopt;  // 1 or 0; none: not known

  void add(const Point& point);
};

// Returns whether larger values of a metric are better: as its newest run says, else by its name.
bool maximizes(Database& database, const std::string& metric);

// Returns the summaries of a run, sorted by name.
std::vector<MetricSummary> read_summaries(Database& database, int64_t run_id);

// A row of the table `chunk` with its points, in the order recorded.
struct Chunk {
  int64_t no = 0;
  std::vector<Point> points;
};

// Throws Error(kStore) naming the metric and the chunk.
[[noreturn]] void fail_damaged_chunk(Database& database, int64_t no, const std::string& metric);

// Returns the chunks of a metric in the order recorded, or none if the run has no such metric. Throws Error(kStore)
// naming the metric and the chunk if one is damaged.
std::vector<Chunk> read_chunks(Database& database, int64_t run_id, const std::string& metric);

// Writes both tables. Use it inside a transaction.
class MetricTables {
 public:
  explicit MetricTables(Database& database);

  // Inserts or replaces the summary. Returns the id of the series.
  int64_t put_summary(int64_t run_id, const MetricSummary& summary);
  // Inserts or replaces a chunk of 1 to kChunkPoints points.
  void put_chunk(int64_t series_id, int64_t no, std::span<const Point> points);
  // Inserts a chunk whose points are lost.
  void put_lost_chunk(int64_t series_id, int64_t no);
  // Removes all points recorded after `recorded` and recomputes the summaries from the remaining points. A metric
  // without points is removed. Returns the number of removed points.
  int64_t take_back(int64_t run_id, const SeriesPosition& recorded);

 private:
  int64_t take_back(int64_t run_id, const std::string& metric, const SeriesPosition& recorded);

  Database& database_;
  Statement put_summary_;
  Statement put_chunk_;
};

}  // namespace runner::store
