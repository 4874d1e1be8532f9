// From an element-wise group of a Program to the code that its kernel runs.
#pragma once

#include <vector>

#include "backends/kernels/eltwise.h"
#include "backends/plan/fusion.h"

namespace runner::backends {

struct LoweredGroup {
  EltwiseGroup eltwise;
  std::vector<ValueId> inputs;  // the values, in memory, that the code's inputs are
};

// Expands become strides, constants registers; what several nodes read is one input.
LoweredGroup lower(const Program& program, const Group& group);

}  // namespace runner::backends
