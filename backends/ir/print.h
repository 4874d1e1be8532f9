// Programs as text: what RUNNER_DEBUG prints, and golden files hold; and the first difference between two Programs.
#pragma once

#include <string>

#include "backends/ir/program.h"

namespace runner::backends {

// One line per node, "%3 = matmul %1 %2 {0, 1} : (32, 128) f32", then one line per output.
std::string to_string(const Program& program);

// One node without a line break.
std::string to_string(const Program& program, ValueId id);
// Its attributes: "{eps 1e-05}", "{0, 1}"; of a leaf its kind and name, or its value; empty: none.
std::string attributes_text(const Program& program, ValueId id);

// Returns the first node whose op, type, operands or attributes differ; the size of the shorter Program if it is a
// prefix of the other.
ValueId first_difference(const Program& a, const Program& b);

// Describes the difference at node `id`, which both Programs have: "features is (10, 784) f32, and was (64, 784) f32".
std::string node_difference(const Program& before, const Program& now, ValueId id);
// Describes the first difference, also if one Program is a prefix of the other.
std::string difference_text(const Program& before, const Program& now);

// Describes a node: "the input \"x\" (2, 3) f32", "matmul (2, 4) f32".
std::string node_text(const Program& program, ValueId id);

}  // namespace runner::backends
