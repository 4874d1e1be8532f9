// The error of a GPU that has not the memory for a request.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/memory_owner.h"
#include "backends/gpu/memory_spec.h"
#include "backends/gpu/memory_trace.h"
#include "backends/runtime/memory_advice.h"
#include "backends/runtime/out_of_memory.h"

namespace runner::backends::gpu {

struct MemoryShortage {
  const MemorySpec* spec;  // not null
  int64_t requested = 0;
  PoolId pool = 0;
  OwnerId owner = 0;                   // of what was to be allocated
  const MemoryTrace* trace = nullptr;  // the step whose request it is; null: an array's
  std::vector<int64_t> arrays = {};    // the bytes of each that is there beside the step, or that is to be made
  std::vector<int64_t> staged = {};    // those of a batch of training that is there, too, while something else runs
};

// Device, request, what is allocated, reserved and free, the five largest owners, the first thing to change, and how
// much memory would do; at the line of the owner.  For use right behind the refusal.
OutOfMemory out_of_memory(const MemoryShortage& shortage, const CachingAllocator& allocator, const OwnerTable& owners);

// Where the step would fit into an allocator that had never done anything else: no captured graphs, where there are
// such, and else steps of one size.  Otherwise the change that costs least of those after which it would, the one that
// saves most if none does: a smaller batch, whose gradients are kept until the next one, mixed_precision bf16, a
// smaller model.
Advice first_thing_to_change(const MemoryShortage& shortage, const CachingAllocator& allocator);

// The least memory, in segments of 2 MiB, into which the arrays and the step would fit as they are; none: not known, or
// they would fit into what there is.
std::optional<int64_t> memory_that_suffices(const MemoryShortage& shortage);

}  // namespace runner::backends::gpu
