// Predicts the GPU memory of steps before any of them runs.
//
// The steps run one after the other on a DeviceMemory of their own, exactly as on the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/gpu/memory_spec.h"
#include "backends/gpu/memory_trace.h"
#include "backends/gpu/training_replay.h"

namespace runner::backends::gpu {

// Memory of a step on a device that contains only the arrays it uses.
struct MemoryForecast {
  int64_t resident = 0;  // reserved for its states
  int64_t peak_reserved = 0;

  int64_t temporary() const { return peak_reserved - resident; }
};

// Throws OutOfMemory if the limit is exceeded.
MemoryForecast forecast_memory(const MemoryTrace& trace, const MemorySpec& spec);

// Returns the peak of reserved bytes over consecutive epochs with staged training batches. Throws OutOfMemory if the
// limit is exceeded.
int64_t forecast_training(std::span<const ArrayBytes> arrays, const TrainingSteps& steps, const MemorySpec& spec);

}  // namespace runner::backends::gpu
