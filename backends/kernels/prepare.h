// What makers of kernels share: how work is cut into chunks, and how sums are rounded.
#pragma once

#include <algorithm>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {

// Chunks for `work_ns` of work that can be cut in at most `pieces`: one below 20 µs, then about 10 µs each, at most 64.
int64_t chunk_count(double work_ns, int64_t pieces);

// Writes n registers as elements of `to`, with its rounding.
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
