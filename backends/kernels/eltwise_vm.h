// The interpreter of element-wise groups: blocks of about a thousand elements, one vectorised loop for each instruction
// and block, registers in the first-level cache.
#pragma once

#include "backends/kernels/eltwise.h"

namespace runner::backends {

// A group's iteration space after adjacent axes that every input walks as one have been merged and axes of size 1
// dropped.
struct CollapsedSpace {
  int rank = 1;  // at least 1
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::vector<std::array<int64_t, Shape::kMaxRank>> strides;  // of each input, in elements

  int64_t inner() const { return dims[static_cast<size_t>(rank - 1)]; }
  int64_t inner_stride(size_t input) const { return strides[input][static_cast<size_t>(rank - 1)]; }
};
CollapsedSpace collapse(const EltwiseGroup& group);

// How long one element takes, in nanoseconds on a current core: what decides the number of chunks.
double element_cost_ns(const EltwiseGroup& group);
Kernel prepare_eltwise_vm(const EltwiseGroup& group);

}  // namespace runner::backends
