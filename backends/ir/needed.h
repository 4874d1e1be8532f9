// Which nodes of a Program others are computed from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/ir/traced_scalar.h"

namespace runner::backends {

// Marks, by node, what marked nodes are computed from.
void mark_operands(const Program& program, std::vector<char>& marked);

// By node: one of the roots is computed from it, or it is one.
std::vector<char> needed_by(const Program& program, std::span<const ValueId> roots);
// The same of all outputs.
std::vector<char> needed_by_outputs(const Program& program);

// The states that an output is computed from, by index among the states.
std::vector<int32_t> states_read(const Program& program);

// Of the numbers, those that stand in marked nodes.
std::vector<TracedScalar> scalars_in(const Program& program, const std::vector<char>& marked,
                                     std::span<const TracedScalar> scalars);

}  // namespace runner::backends
