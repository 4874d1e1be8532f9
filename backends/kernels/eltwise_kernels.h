// Interpreter of element-wise groups: blocks of about a thousand elements, one vectorised loop per instruction and
// block, registers in the L1 cache.
#pragma once

#include "backends/kernels/eltwise.h"

namespace runner::backends {

// The iteration space of a group without axes of size 1, adjacent axes merged where the strides of all inputs allow it.
struct CollapsedSpace {
  int rank = 1;  // at least 1
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::vector<std::array<int64_t, Shape::kMaxRank>> strides;  // of each input, in elements

  int64_t inner() const { return dims[static_cast<size_t>(rank - 1)]; }
  int64_t inner_stride(size_t input) const { return strides[input][static_cast<size_t>(rank - 1)]; }
};
CollapsedSpace collapse(const EltwiseGroup& group);

// Nanoseconds per element on a current core, which decides the number of chunks.
double element_cost_ns(const EltwiseGroup& group);
Kernel prepare_eltwise_vm(const EltwiseGroup& group);

}  // namespace runner::backends
