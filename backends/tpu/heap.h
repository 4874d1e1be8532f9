// Packs blocks with lifetimes into one heap, like XLA: largest first, each into the smallest gap that fits.
//
// Invariant: blocks whose lifetimes overlap do not overlap in the heap.
#pragma once

#include <cstdint>
#include <span>

namespace runner::backends::tpu {

struct HeapBlock {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive
  int64_t offset = 0;
};

// Sets the offsets. Returns the size of the heap in bytes.
int64_t pack_best_fit(std::span<HeapBlock> blocks);

struct Peak {
  int step = 0;
  int64_t bytes = 0;
};

// Returns the first step at which most bytes are live, out of `steps` steps. It is a lower bound of any heap.
Peak peak_step(std::span<const HeapBlock> blocks, int steps);

}  // namespace runner::backends::tpu
