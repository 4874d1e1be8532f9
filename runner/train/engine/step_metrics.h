// Metrics of a hook's training steps, accumulated between points.
#pragma once

#include <map>
#include <string>

namespace runner::train {

// A hook's metric: Σ sum / Σ weight.
struct MetricSum {
  double sum = 0, weight = 0;
  void operator+=(const MetricSum& other) {
    sum += other.sum;
    weight += other.weight;
  }
};
using MetricSums = std::map<std::string, MetricSum>;
void add_to(MetricSums& sums, const MetricSums& more);

// Metrics since the last points. Like train/loss, they include an optimizer step only if it was finite.
struct StepMetrics {
  MetricSums ended;    // of finished optimizer steps
  MetricSums step;     // of the optimizer step in progress, over all ranks, as far as reduced
  MetricSums batches;  // of the optimizer step in progress, on this rank, not yet reduced
  MetricSums in_step() const;
  void end_step(bool finite);
};

}  // namespace runner::train
