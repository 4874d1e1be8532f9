// Which nodes of a Program others are computed from.
#pragma once

#include <span>
#include <vector>

#include "backends/graph/traced_scalar.h"

namespace runner::backends {

// Marks, by node, what marked nodes are computed from.
void mark_operands(const Program& program, std::vector<char>& marked);

// By node: an output is computed from it.
std::vector<char> needed_by_outputs(const Program& program);

// Of the numbers, those that stand in marked nodes.
std::vector<TracedScalar> scalars_in(const Program& program, const std::vector<char>& marked,
                                     std::span<const TracedScalar> scalars);

}  // namespace runner::backends
