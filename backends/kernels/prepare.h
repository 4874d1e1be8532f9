// Helpers for preparing kernels: chunks of work (see part_of in rounding.h), and rounding of accumulators.
#pragma once

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/kernel.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

// Number of chunks for `work_ns` of work that consists of `pieces`: 1 below 20 µs, else one per 10 µs, at most 64.
int64_t chunk_count(double work_ns, int64_t pieces);

// Rounds n accumulators to dtype `to` and stores them.
void store_rounded(Compute from, const std::byte* values, int64_t n, DType to, std::byte* target);

}  // namespace runner::backends
