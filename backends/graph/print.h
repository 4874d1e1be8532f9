// Programs as text: what RUNNER_DEBUG shows, what golden files hold.
#pragma once

#include <string>

#include "backends/graph/program.h"

namespace runner::backends {

// One line a node, "%3 = matmul %1 %2 {0, 1} : (32, 128) f32", then one line an output.
std::string to_string(const Program& program);

// One node without a line break; its attributes as the op names them.
std::string to_string(const Program& program, ValueId id);

}  // namespace runner::backends
