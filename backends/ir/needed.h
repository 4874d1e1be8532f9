// Dependencies between the nodes of a Program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/ir/traced_scalar.h"

namespace runner::backends {

// Adds to `marked`, by node, all nodes that marked nodes depend on.
void mark_operands(const Program& program, std::vector<char>& marked);

// By node: whether it is one of the roots or one of them depends on it.
std::vector<char> needed_by(const Program& program, std::span<const ValueId> roots);
// The same with all outputs as roots.
std::vector<char> needed_by_outputs(const Program& program);

// Returns the states that the outputs depend on, by index among the states.
std::vector<int32_t> states_read(const Program& program);

// Returns the scalars recorded at marked nodes.
std::vector<TracedScalar> scalars_in(const Program& program, const std::vector<char>& marked,
                                     std::span<const TracedScalar> scalars);

}  // namespace runner::backends
