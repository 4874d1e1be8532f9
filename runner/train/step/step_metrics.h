// What a hook's training steps measure, added up between points.
#pragma once

#include <map>
#include <string>

namespace runner::train {

// What a hook's metric is made of: Σ sum / Σ weight.
struct MetricSum {
  double sum = 0, weight = 0;
  void operator+=(const MetricSum& other) {
    sum += other.sum;
    weight += other.weight;
  }
};
using MetricSums = std::map<std::string, MetricSum>;
void add_to(MetricSums& sums, const MetricSums& more);

// Those of a hook's training step since the last points.  As in train/loss, a window counts if it is finite.
struct StepMetrics {
  MetricSums ended;    // of windows that are over
  MetricSums window;   // of the one under way, of all replicas whose gradients it adds up
  MetricSums batches;  // of it, too, on this replica: the others have not added theirs
  MetricSums in_window() const;
  void end_window(bool finite);
};

}  // namespace runner::train
