// Simulates a memory plan step by step and checks that every group reads the right values.
//
// It does not depend on how the plan was made. Each byte of memory is tagged with the value, and the byte of it, that
// was last written there. Reading any other tag is a fault, and so is overwriting what a step still reads.
#pragma once

#include <string>
#include <vector>

#include "backends/exec/memory_plan.h"

namespace runner::backends::testing {

// Returns an empty string or the first fault.
std::string memory_plan_fault(const Program& program, const std::vector<Group>& groups, const MemoryPlan& plan,
                              const std::vector<size_t>& scratch_bytes);

}  // namespace runner::backends::testing
