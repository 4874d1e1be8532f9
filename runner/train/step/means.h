// Means since the last points, of the loss and of a hook's metrics.
#pragma once

#include <array>

#include "backends/collectives/collectives.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/step_metrics.h"

namespace runner::train {

class Means {
 public:
  // `local`: null, or the replicas with weights of their own (train.local_sgd), who call the functions together.  All
  // must outlive it.
  Means(const StepBuilder& builder, DeviceArrays& arrays, Executor& executor, StepMetrics& metrics,
        backends::Collectives* local);

  // Mean train loss by weight over the windows since the last call; NaN when there was none.
  double take_loss();
  // Of the windows since the last call.
  MetricSums take_metrics();
  // Of replicas with weights of their own: what is in no point yet is with rank 0 alone from now on, as a state has it.
  void gather();

 private:
  // {Σ loss, Σ weight} since the last call.
  std::array<double, 2> take_sums();

  const StepBuilder& builder_;
  DeviceArrays& arrays_;
  Executor& executor_;
  StepMetrics& metrics_;
  backends::Collectives* const local_;
};

}  // namespace runner::train
