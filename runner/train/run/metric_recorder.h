// Passes metric points to the store and keeps their summary.
//
// Not thread-safe; belongs to the training thread. add() allocates nothing for a known series.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "runner/train/loop/hooks.h"
#include "runner/train/run/log_files.h"
#include "runner/train/run/run.h"
#include "store/run_writer.h"

namespace runner::train {

// Records metrics. In their names, references replace the values of secrets (schema/base/secrets.h).
class MetricRecorder {
 public:
  // `writer`: null if nothing is recorded and points are only remembered. `logs`: null if there are no log files.
  // `hooks`: null if there is no hook; must outlive the object.
  explicit MetricRecorder(store::RunWriter* writer, LogFiles* logs = nullptr, const Hooks* hooks = nullptr)
      : writer_(writer), logs_(logs), hooks_(hooks) {}

  // Records `name` at `step` and updates its last, smallest and largest value. Throws Error(kRun) if there are too many
  // names, as with a name that changes with the step.
  void add(std::string_view name, int64_t step, double value);
  // Continues a series of an earlier attempt.
  void resume(const std::string& name, const MetricRange& range);

  // Returns the last value of a metric; NaN if there is none.
  double newest(std::string_view name) const;
  // Returns the metrics that have a point at `step`.
  std::map<std::string, double> at(int64_t step) const;
  // Returns those that belong to the present weights: recorded since note_other_weights().
  std::map<std::string, double> of_weights_at(int64_t step) const;
  void note_other_weights();
  std::map<std::string, MetricRange> ranges() const;

 private:
  struct Series {
    store::SeriesIndex index;
    MetricRange range;
    int64_t step;  // of the last point
    bool is_of_weights = true;
  };

  store::SeriesIndex series_of(std::string_view name, std::string_view recorded_name);

  store::RunWriter* const writer_;
  LogFiles* const logs_;
  const Hooks* const hooks_;
  std::map<std::string, Series, std::less<>> series_;
};

}  // namespace runner::train
