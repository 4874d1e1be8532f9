// Where two Programs part.
#pragma once

#include <string>

#include "backends/ir/program.h"

namespace runner::backends {

// The first place at which they have another op, type, operand or attribute; the size of the shorter one where, as far
// as it goes, they have the same.
ValueId first_difference(const Program& a, const Program& b);

// "features is (10, 784) f32, and was (64, 784) f32": how they differ there, where the shorter one has not ended.
std::string node_difference(const Program& before, const Program& now, ValueId id);
// The same at the first place where they do, wherever that is.
std::string difference_text(const Program& before, const Program& now);

// "the input \"x\" (2, 3) f32", "matmul (2, 4) f32".
std::string node_text(const Program& program, ValueId id);
// Null: the value is no input.
const Input* input_at(const Program& program, ValueId id);

}  // namespace runner::backends
