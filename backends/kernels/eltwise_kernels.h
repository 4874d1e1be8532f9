// The two ways to run an element-wise group, between which prepare_eltwise() chooses.
//
// The interpreter runs blocks of about a thousand elements, one vectorised loop per instruction and block, with
// registers in the L1 cache. Compiled loops are one of isa/named_loops.cpp for the whole group, or a chain of them that
// runs block by block, where each loop passes one value to the next through the L1 cache. A chain lets one compiled
// optimizer update serve all that may precede it: accumulation, scaling, clipping, decay.
#pragma once

#include <optional>

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

// Returns nullopt if the table has no such loops. `space`: collapse(group).
std::optional<Kernel> prepare_eltwise_named(const EltwiseGroup& group, const CollapsedSpace& space);

}  // namespace runner::backends
