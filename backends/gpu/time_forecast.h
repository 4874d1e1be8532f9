// Predicts the time of an optimizer step on an emulated GPU without running it. Thread-safe for different steps.
#pragma once

#include <span>

#include "backends/device_model/device_model.h"
#include "backends/gpu/gpu_clock.h"
#include "backends/gpu/timeline.h"

namespace runner::backends::gpu {

struct ForecastOptions {
  GpuClock::Options clock;
  bool replays = false;     // the submissions are captured graphs
  bool prefetches = false;  // see GpuDeviceModel::predicted_step()
};

// See GpuDeviceModel::predicted_step().
PredictedTime forecast_time(std::span<const PlannedSubmission> submissions, const ForecastOptions& options);

}  // namespace runner::backends::gpu
