// Means since the last points, of the loss and of a hook's metrics; and what replicas that train weights of their own
// (train.local_sgd) average.
#pragma once

#include <array>

#include "backends/backend.h"
#include "runner/train/step/device_arrays.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/step_builder.h"
#include "runner/train/step/window.h"

namespace runner::train {

class Means {
 public:
  // `local`: null, or the replicas with weights of their own, who call the functions together.  All must outlive it.
  Means(const StepBuilder& builder, backends::Device& device, DeviceArrays& arrays, Executor& executor,
        StepMetrics& metrics, backends::Collectives* local);

  // Mean train loss by weight over the windows since the last call; NaN when there was none.
  double take_loss();
  // Of the windows since the last call.
  MetricSums take_metrics();
  // The weights of all replicas become one, the mean of all, and so do moments, and gradients that a loop of a hook's
  // has kept.
  void average();

 private:
  // {Σ loss, Σ weight} since the last call.
  std::array<double, 2> take_sums();

  const StepBuilder& builder_;
  backends::Device& device_;
  DeviceArrays& arrays_;
  Executor& executor_;
  StepMetrics& metrics_;
  backends::Collectives* const local_;
};

}  // namespace runner::train
