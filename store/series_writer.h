// The metrics of one run between memory and file: takes points, and writes what has changed when asked.
//
// What write() wrote stays here until committed(), so that a transaction that fails is simply written again.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/metric_tables.h"

namespace runner::store {

class SeriesWriter {
 public:
  // Continues the metrics that the run has already; afterwards only write() uses the database.
  SeriesWriter(Database& database, int64_t run_id);

  // Series count from 0, in the order of this call.
  void add_series(const std::string& name);
  size_t count() const { return series_.size(); }

  void add(int32_t series, const Point& point);

  // Points that are not committed.
  int64_t pending() const { return pending_; }

  // Writes all that has changed since the last committed(); inside a transaction.
  void write();
  void committed();

 private:
  struct Series {
    MetricSummary summary;
    int64_t next_chunk = 0;
    std::vector<Point> open;    // the chunk that still grows
    std::vector<Chunk> sealed;  // full chunks that are not committed
    bool changed = false;
  };

  int64_t run_id_;
  MetricTables tables_;
  std::map<std::string, Series> stored_;  // as earlier attempts left them
  std::vector<Series> series_;
  int64_t pending_ = 0;
};

}  // namespace runner::store
