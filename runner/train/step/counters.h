// Counters of a run and metrics of a hook's training steps, which the host keeps. They are part of a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "schema/recipe/recipe.h"

namespace runner::train {

struct StepResult;  // optimizer_step.h

struct Counters {
  int64_t steps = 0;      // finished optimizer steps, including skipped ones
  int64_t applied = 0;    // optimizer steps that updated the parameters
  int64_t samples = 0;    // training samples, without padding
  int64_t batches = 0;    // training batches taken, including those of the optimizer step in progress
  int64_t scheduled = 0;  // steps of the learning rate schedule
  // Updates by optimizer name, including those of a parent run. A missing name means 0.
  std::map<std::string, int64_t> updates = {};
  bool update_was_skipped = false;  // whether the last update of a hook's training loop was skipped
  int64_t repeats = 0;              // padding samples

  int64_t updates_of(const std::string& optimizer) const {
    const auto found = updates.find(optimizer);
    return found == updates.end() ? 0 : found->second;
  }
  // Counts an optimizer step that has run or is in flight, unless it ends the run.
  void add_step(const StepResult& result, schema::OnNan on_nan);
  bool operator==(const Counters&) const = default;
};

// A hook's metric: Σ sum / Σ weight.
struct MetricSum {
  double sum = 0, weight = 0;

  static auto parts(auto& self) { return std::tie(self.sum, self.weight); }
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
