// Graphs as texts, as PyTorch/XLA dumps them.  Of Programs as tensor_graph() makes them.
#pragma once

#include <string>

#include "backends/graph/program.h"

namespace runner::backends::tpu {

// What was traced: "IR {", a line for each node, "}".
std::string ir_text(const Program& tensor_graph);
// What it is lowered to: an HloModule, with a parameter for each input and an alias for each tensor updated in place.
std::string hlo_text(const Program& tensor_graph);

}  // namespace runner::backends::tpu
