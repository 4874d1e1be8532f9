// Reverse-mode differentiation: a function from Program to Program.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// Appends the nodes that compute d(sum of root · seed)/d(wrt) for each value of `wrt`, which may be any nodes.  `seed`
// has root's type.  A value that root does not depend on, or only through ops without derivative, gives an unset Value.
// Contributions are added in the order in which the walk from the last node to the first meets them.
// `finish`, where given, makes what is returned of the derivative by wrt[i], as soon as it is complete: what it records
// stands before the rest of the walk.
using Finish = std::function<Value(size_t i, Value derivative)>;
std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt, const Finish& finish = nullptr);

}  // namespace runner::backends
