// Which attributes an op takes: what type rules (op.h) rely on, since builders and passes write no others.
#pragma once

#include <span>

#include "backends/ir/op.h"

namespace runner::backends {

// Whether a type rule may be asked: attributes in number and range as the op has them.  `operands`: as many as it
// takes.
bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs);

}  // namespace runner::backends
