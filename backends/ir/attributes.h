// The attributes of nodes, by the descriptors of their ops (op_def.h).
#pragma once

#include <span>
#include <vector>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"

namespace runner::backends {

// Whether the number and range of the attributes are valid for the op. Its type rule relies on that: builders and
// passes record no others. `operands`: as many as the op takes.
bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs);

struct AttributeValue {
  const Attribute* attribute;
  std::span<const int64_t> numbers;  // of the node; empty for a shape
};
// Returns the attributes of a node, in order.
std::vector<AttributeValue> attributes_of(const Program& program, ValueId id);

// Returns the position of an attribute in Node::attrs, for ops whose attributes are single numbers.
size_t attribute_index(Op op, std::string_view name);

}  // namespace runner::backends
