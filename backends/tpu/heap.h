// Packing of what lives for a while into one heap, as XLA does it: largest first, each into the smallest gap that
// holds it.
//
// Invariant: blocks whose lives overlap do not overlap in the heap.
#pragma once

#include <cstdint>
#include <span>

namespace runner::backends::tpu {

struct HeapBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive
  int64_t offset = 0;
};

// Sets the offsets.  Returns the bytes of the heap.
int64_t pack_best_fit(std::span<HeapBlock> blocks);

struct Fullest {
  int step = 0;
  int64_t bytes = 0;
};

// The step at which most bytes live, the first of them; `steps` in all.  No heap can be smaller.
Fullest fullest_step(std::span<const HeapBlock> blocks, int steps);

}  // namespace runner::backends::tpu
