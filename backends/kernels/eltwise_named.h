// Compiled loops for element-wise groups: one of isa/named_loops.cpp for the whole group, or a chain of them that runs
// block by block, where each loop passes one value to the next through the L1 cache.
//
// A chain lets one compiled optimizer update serve all that may precede it: accumulation, scaling, clipping, decay.
#pragma once

#include <optional>

#include "backends/kernels/eltwise_vm.h"

namespace runner::backends {

// Returns nullopt if the table has no such loops. `space`: collapse(group).
std::optional<Kernel> prepare_eltwise_named(const EltwiseGroup& group, const CollapsedSpace& space);

}  // namespace runner::backends
