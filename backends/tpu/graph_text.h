// Graphs as texts, as PyTorch/XLA dumps them: shapes are the device's, so with XLA_USE_BF16 a float is bf16.  Of
// Programs as tensor_graph() makes them, whose types are logical.
#pragma once

#include <string>

#include "backends/graph/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// What was traced: "IR {", a line for each node, "}".
std::string ir_text(const Program& tensor_graph, const DeviceTypes& types = {});
// What it is lowered to: an HloModule, with a parameter for each input and an alias for each tensor updated in place,
// and without casts between types that the device has one for.
std::string hlo_text(const Program& tensor_graph, const DeviceTypes& types = {});

}  // namespace runner::backends::tpu
