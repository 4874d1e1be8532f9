// Metric points on their way to the store, and what the run's summary says about them.
//
// Not thread-safe; belongs to the training thread.  add() with a known series allocates nothing.
#pragma once

#include <map>
#include <string>

#include "runner/train/run.h"
#include "store/run_writer.h"

namespace runner::train {

class Recorder {
 public:
  explicit Recorder(store::RunWriter& writer) : writer_(writer) {}

  // Records `name` at `step` and keeps its last, smallest and largest value.
  void add(const std::string& name, int64_t step, double value);
  // Continues a series of an earlier attempt.
  void resume(const std::string& name, const MetricRange& range);

  // Newest value of a metric; NaN where there is none.
  double newest(const std::string& name) const;
  std::map<std::string, MetricRange> ranges() const;

 private:
  struct Series {
    store::SeriesIndex index;
    MetricRange range;
  };

  store::RunWriter& writer_;
  std::map<std::string, Series> series_;
};

}  // namespace runner::train
