// Metric series in the tables `series` and `chunk`: summaries, and reading and writing them.
//
// A summary is always the fold of add() over the series' points in the order recorded.
// Thread safety: as the Database given.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "store/codec.h"
#include "store/sqlite.h"

namespace runner::store {

struct MetricSummary {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::string name;
  int64_t n = 0;
  int64_t first_step = 0, last_step = 0;
  double first = kNone, last = kNone;
  double min = kNone, max = kNone;  // over the points that are not NaN; NaN where there are none
  int64_t min_step = 0, max_step = 0;
  double sum = 0;  // over the finite points, added in the order recorded
  int64_t nan_count = 0, inf_count = 0;

  void add(const Point& point);
};

// The summaries of a run, by name.
std::vector<MetricSummary> read_summaries(Database& database, int64_t run_id);

// One row of `chunk`.
struct Chunk {
  int64_t no = 0;
  std::vector<Point> points;
};

// The chunks of a metric in the order recorded; none if there is no such metric.  Throws Error(kStore) that names
// metric and chunk if one is damaged.
std::vector<Chunk> read_chunks(Database& database, int64_t run_id, const std::string& metric);

// Writes rows; call inside a transaction.
class MetricTables {
 public:
  explicit MetricTables(Database& database);

  // Inserts or replaces; returns the series' id.
  int64_t put_summary(int64_t run_id, const MetricSummary& summary);
  void put_chunk(int64_t series_id, int64_t no, std::span<const Point> points);
  // The same for a chunk that is encoded already.
  void put_chunk(int64_t series_id, int64_t no, size_t count, int64_t max_step, std::span<const std::byte> data);
  // Removes all points but `recorded` and makes every summary that of the points that remain; a metric without points
  // disappears.  Returns how many were removed.
  int64_t take_back(int64_t run_id, const Recorded& recorded);

 private:
  int64_t take_back(int64_t run_id, const std::string& metric, const Recorded& recorded);

  Database& database_;
  Statement put_summary_;
  Statement put_chunk_;
};

int64_t max_step(std::span<const Point> points);

}  // namespace runner::store
