// Reverse-mode differentiation: a function from Program to Program.
#pragma once

#include <span>
#include <vector>

#include "backends/graph/program.h"

namespace runner::backends {

// Appends the nodes that compute d(sum of root · seed)/d(wrt) for each value of `wrt`, which may be any nodes.  `seed`
// has root's type.  A value that root does not depend on, or only through ops without derivative, gives an unset Value.
// Contributions are added in the order in which the walk from the last node to the first meets them.
std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt);

}  // namespace runner::backends
