// Programs as text: what RUNNER_DEBUG prints, and golden files hold.
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

}  // namespace runner::backends
