// The error of a GPU that has not the memory for a request.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/memory_owner.h"
#include "backends/gpu/memory_trace.h"
#include "backends/runtime/memory_advice.h"
#include "backends/runtime/out_of_memory.h"

namespace runner::backends::gpu {

struct MemoryShortage {
  std::string device = {};  // "gpu 0"
  int64_t requested = 0;
  PoolId pool = 0;
  OwnerId owner = 0;  // of what was to be allocated
  // The step whose request it is, and the bytes of each array that is there beside it; null: no step's.
  const MemoryTrace* trace = nullptr;
  bool captures = false;  // steps become captured graphs
  std::vector<int64_t> arrays = {};
};

// Device, request, what is allocated, reserved and free, the five largest owners, and the first thing to change; at the
// line of the owner.  For use right behind the refusal.
OutOfMemory out_of_memory(const MemoryShortage& shortage, const CachingAllocator& allocator, const OwnerTable& owners);

// Where the step would fit into an allocator that had never done anything else: no captured graphs, where there are
// such, and else steps of one size.  Otherwise the change that costs least of those after which it would, the one that
// saves most if none does: a smaller batch, mixed_precision bf16, a smaller model.
Advice first_thing_to_change(const MemoryShortage& shortage, const CachingAllocator& allocator);

}  // namespace runner::backends::gpu
