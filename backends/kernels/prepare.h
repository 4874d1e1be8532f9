// Helpers for preparing kernels: chunks of work, and rounding of accumulators.
#pragma once

#include <algorithm>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

// Number of chunks for `work_ns` of work that consists of `pieces`: 1 below 20 µs, else one per 10 µs, at most 64.
int64_t chunk_count(double work_ns, int64_t pieces);

// Rounds n accumulators to dtype `to` and stores them.
void store_rounded(Compute from, const std::byte* values, int64_t n, DType to, std::byte* target);

// Chunk `index` of `count` nearly equal parts of [0, size).
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
inline Range part_of(int64_t size, int64_t index, int64_t count) {
  return {size * index / count, size * (index + 1) / count};
}

}  // namespace runner::backends
