// Metric series of one run in memory: collects points and writes what has changed.
//
// Written data is kept until committed(), so that a failed transaction can be repeated. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/metric_tables.h"

namespace runner::store {

class SeriesWriter {
 public:
  // Continues the existing series of the run. After construction, only write() uses the database.
  SeriesWriter(Database& database, int64_t run_id);

  // Appends a series. Indices count from 0 in the order of the calls. `larger_is_better`: none if not known.
  void add_series(const std::string& name, std::optional<bool> larger_is_better = std::nullopt);
  size_t count() const { return series_.size(); }

  void add(int32_t series, const Point& point);

  // Number of points that are not committed.
  int64_t pending() const { return pending_; }

  // Writes everything that has changed since the last committed(). Call it inside a transaction.
  void write();
  void committed();

 private:
  struct Series {
    MetricSummary summary;
    int64_t next_chunk = 0;
    std::vector<Point> open;    // the chunk that is being filled
    std::vector<Chunk> sealed;  // full chunks that are not committed
    bool changed = false;
  };

  int64_t run_id_;
  MetricTables tables_;
  std::map<std::string, Series> stored_;  // series of earlier attempts
  std::vector<Series> series_;
  int64_t pending_ = 0;
};

}  // namespace runner::store
