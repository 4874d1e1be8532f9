// Means of the loss and of a hook's metrics since the last recorded points.
#pragma once

#include <array>

#include "backends/dist/process_group.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

class LossMeans {
 public:
  // With train.local_sgd all functions are collective.
  explicit LossMeans(const EngineParts& parts);

  // Returns the weighted mean train loss over the optimizer steps since the last call; NaN if there was none.
  double take_loss();
  // Returns the metrics of the optimizer steps since the last call.
  MetricSums take_metrics();
  // Moves everything not yet in a point to rank 0, as a checkpoint needs it. For ranks with separate weights.
  void gather();

 private:
  // Returns {Σ loss, Σ weight} since the last call.
  std::array<double, 2> take_sums();

  const EngineParts& parts_;
  backends::ProcessGroup* const local_;  // ranks that train separate weights (train.local_sgd); null otherwise
};

}  // namespace runner::train
