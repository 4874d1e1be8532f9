// Programs as text: what RUNNER_DEBUG shows, what golden files hold.
#pragma once

#include <string>

#include "backends/ir/program.h"

namespace runner::backends {

// One line a node, "%3 = matmul %1 %2 {0, 1} : (32, 128) f32", then one line an output.
std::string to_string(const Program& program);

// One node without a line break.
std::string to_string(const Program& program, ValueId id);
// What it is beside its operands, as the op names it: "{eps 1e-05}", "{0, 1}"; empty: nothing.
std::string attributes_text(const Program& program, ValueId id);

}  // namespace runner::backends
