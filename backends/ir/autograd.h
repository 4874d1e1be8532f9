// Reverse-mode differentiation: a function from Program to Program.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/ir/program.h"

namespace runner::backends {

// Appends the nodes that compute d(sum of root · seed)/d(wrt) for each value of `wrt`, and returns these gradients. A
// gradient is unset if root does not depend on the value, or only through ops without a gradient.
//
// The walk goes from the last node to the first, and adds contributions to a gradient in this order. The appended nodes
// can be differentiated too, except gradients of layer_norm: these throw Error(kRun). Nodes of a range of
// Program::recomputed() are recorded again just before the gradients of that range, which read the copies. The
// gradients are the same to the bit.
// `seed`: the gradient of root, of root's type.
// `wrt`: any nodes of the Program.
// `finish`: null, or called for each gradient as soon as it is complete, before the rest of the walk is recorded. Its
// result replaces the gradient.
using Finish = std::function<Value(size_t i, Value derivative)>;
std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt, const Finish& finish = nullptr);

}  // namespace runner::backends
