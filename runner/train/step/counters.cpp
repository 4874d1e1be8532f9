#include "runner/train/step/counters.h"

namespace runner::train {

void add_to(MetricSums& sums, const MetricSums& more) {
  for (const auto& [name, sum] : more) sums[name] += sum;
}

MetricSums StepMetrics::in_step() const {
  MetricSums sums = step;
  add_to(sums, batches);
  return sums;
}

void StepMetrics::end_step(bool finite) {
  if (finite) {
    add_to(ended, step);
    add_to(ended, batches);
  }
  step.clear();
  batches.clear();
}

}  // namespace runner::train
