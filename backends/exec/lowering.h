// Lowers an element-wise group of a Program to the code of its kernel.
#pragma once

#include <vector>

#include "backends/exec/fusion.h"
#include "backends/kernels/eltwise.h"

namespace runner::backends {

struct LoweredGroup {
  EltwiseGroup eltwise;
  std::vector<ValueId> inputs;  // values in memory that are the inputs of the code
};

// Expands become strides and constants become registers; a value read by several nodes is one input.
LoweredGroup lower(const Program& program, const Group& group);

}  // namespace runner::backends
