// Metric points on their way to the store, and what the run's summary says about them.
//
// Not thread-safe; belongs to the training thread.  add() with a known series allocates nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runner/train/record/log_files.h"
#include "runner/train/run.h"
#include "store/run_writer.h"

namespace runner::train {

class Recorder {
 public:
  // `writer`: null where nothing is recorded, and points are only remembered; `logs`: null where there are none.
  explicit Recorder(store::RunWriter* writer, LogFiles* logs = nullptr) : writer_(writer), logs_(logs) {}

  // Records `name` at `step` and keeps its last, smallest and largest value.  Throws Error(kRun) for a name more than
  // any run needs: one that changes with the step.
  void add(std::string_view name, int64_t step, double value);
  // Continues a series of an earlier attempt.
  void resume(const std::string& name, const MetricRange& range);

  // Newest value of a metric; NaN where there is none.
  double newest(std::string_view name) const;
  // The metrics that have a point at `step`.
  std::map<std::string, double> at(int64_t step) const;
  std::map<std::string, MetricRange> ranges() const;

 private:
  struct Series {
    store::SeriesIndex index;
    MetricRange range;
    int64_t step;  // of the newest point
  };

  store::SeriesIndex series_of(std::string_view name);

  store::RunWriter* const writer_;
  LogFiles* const logs_;
  std::map<std::string, Series, std::less<>> series_;
};

}  // namespace runner::train
