#include "runner/train/engine/step_metrics.h"

namespace runner::train {

void add_to(MetricSums& sums, const MetricSums& more) {
  for (const auto& [name, sum] : more) sums[name] += sum;
}

MetricSums StepMetrics::in_window() const {
  MetricSums sums = window;
  add_to(sums, batches);
  return sums;
}

void StepMetrics::end_window(bool finite) {
  if (finite) {
    add_to(ended, window);
    add_to(ended, batches);
  }
  window.clear();
  batches.clear();
}

}  // namespace runner::train
