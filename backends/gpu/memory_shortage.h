// Out-of-memory error of an emulated GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/device_model/memory_advice.h"
#include "backends/exec/backend.h"
#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/memory_trace.h"
#include "backends/gpu/training_replay.h"

namespace runner::backends::gpu {

struct MemoryShortage {
  const MemorySpec* spec;  // not null
  int64_t requested = 0;
  PoolId pool = 0;
  OwnerId owner = 0;                   // owner of the failed request
  const MemoryTrace* trace = nullptr;  // the step that made the request; null: an array did
  std::vector<int64_t> arrays = {};    // sizes of the arrays allocated in addition to the step, or to be made
  std::vector<int64_t> staged = {};    // sizes of a staged training batch that stays while something else runs
  // Steps of the training, among them the one that made the request; null: only that one is known.
  const TrainingSteps* steps = nullptr;
  bool are_all_steps = false;  // no other steps will come
};

// Returns an error with device, request, allocated, reserved and free bytes, the five largest owners, advice on what to
// change first, and the memory that would suffice. Its location is the line of the owner. Call it directly after the
// refusal.
OutOfMemory out_of_memory(const MemoryShortage& shortage, const CachingAllocator& allocator, const OwnerTable& owners);

// Advice on what to change. If the step would fit into an empty allocator, the advice is to turn off capture if it is
// on, else to use steps of one size. Otherwise it is the least costly change that suffices or, if none does, the one
// that saves most. In order of cost: a smaller batch with gradient accumulation, mixed_precision bf16, a smaller model.
Advice first_thing_to_change(const MemoryShortage& shortage, const CachingAllocator& allocator);

// Returns the smallest memory, in segments of 2 MiB, that holds the arrays and the steps unchanged. Returns nullopt if
// it is unknown or if they fit into the present limit.
std::optional<int64_t> memory_that_suffices(const MemoryShortage& shortage);

}  // namespace runner::backends::gpu
