// What steps will take of a GPU's memory, before any of them runs.
//
// They are run on a DeviceMemory of their own, one behind the other: that is what the device will do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/account.h"
#include "backends/gpu/memory_spec.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

// What a step takes of a device that has nothing but the arrays it works on.
struct MemoryForecast {
  int64_t resident = 0;  // reserved for its states
  int64_t peak_reserved = 0;

  int64_t temporary() const { return peak_reserved - resident; }
};

// Throws OutOfMemory where the limit is less.
MemoryForecast forecast_memory(const MemoryTrace& trace, const MemorySpec& spec);

// A training as memory sees it: its arrays, and the steps of an epoch, in their order; behind it those of an
// evaluation.
struct TrainingTraces {
  std::span<const ArrayBytes> arrays;
  std::vector<const MemoryTrace*> training, evaluation;
};

// The most that is reserved while epochs follow each other, and batches of training are staged.  Throws OutOfMemory
// where the limit is less.
int64_t forecast_training(const TrainingTraces& traces, const MemorySpec& spec);

}  // namespace runner::backends::gpu
