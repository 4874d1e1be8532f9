// The attributes of nodes, by the descriptors of their ops (op_def.h).
#pragma once

#include <span>
#include <vector>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Whether attributes are in number and range as the op has them, which its type rule relies on: builders and passes
// record no others.  `operands`: as many as the op takes.
bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs);

struct AttributeValue {
  const Attribute* attribute;
  std::span<const int64_t> numbers;  // of the node; empty for a shape
};
// Those that a node has, in order.
std::vector<AttributeValue> attributes_of(const Program& program, ValueId id);

// Where among the attributes of a node one that takes a single number is.
size_t attribute_index(Op op, std::string_view name);

}  // namespace runner::backends
