// Which nodes of a Program others are computed from.
#pragma once

#include <vector>

#include "backends/graph/program.h"

namespace runner::backends {

// Marks, by node, what marked nodes are computed from.
void mark_operands(const Program& program, std::vector<char>& marked);

// By node: an output is computed from it.
std::vector<char> needed_by_outputs(const Program& program);

}  // namespace runner::backends
