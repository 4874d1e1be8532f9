// Reverse-mode differentiation: a function from Program to Program.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// Appends the nodes that compute d(sum of root · seed)/d(wrt) for each value of `wrt`, and returns these gradients. The
// value is unset if root does not depend on it, or only through ops without a gradient. Contributions to a gradient are
// added in the order of the walk from the last node to the first. The nodes can be differentiated again, except the
// gradients of layer_norm, for which it throws Error(kRun). Nodes of Program::recomputed() are recorded again for the
// gradients that read them, just before those of the same range; the gradients are equal to the bit.
// `seed`: the gradient of root, of root's type.
// `wrt`: any nodes of the Program.
// `finish`: null, or called for each gradient as soon as it is complete, before the rest of the walk is recorded;
// returns the value to return for it.
using Finish = std::function<Value(size_t i, Value derivative)>;
std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt, const Finish& finish = nullptr);

}  // namespace runner::backends
