// Graphs as texts, as PyTorch/XLA dumps them.
#pragma once

#include <string>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

// What was traced: "IR {", a line for each node in post-order, "}".
std::string ir_text(const GraphIdentity& graph);
// What it is lowered to: an HloModule.
std::string hlo_text(const GraphIdentity& graph);

}  // namespace runner::backends::tpu
