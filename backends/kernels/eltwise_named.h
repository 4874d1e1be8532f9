// Compiled loops for element-wise groups: isa/named_loops.cpp has one for the whole group, or some that compute it one
// behind the other, block by block, each handing one value to the next through the first-level cache.
//
// So an optimizer's loop serves whatever is done to the gradient before it: accumulation, scaling, clipping, decay.
#pragma once

#include <optional>

#include "backends/kernels/eltwise_vm.h"

namespace runner::backends {

// Nothing where the table has no such loops.  `space`: collapse(group).
std::optional<Kernel> prepare_eltwise_named(const EltwiseGroup& group, const CollapsedSpace& space);

}  // namespace runner::backends
