// What a traced graph has that the number types of a device cannot hold, or compute only slowly.
#pragma once

#include <string>
#include <vector>

#include "backends/graph/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Texts with the line of the op, each once: constants that overflow, such as masks, and tensors of f64 that stay so.
std::vector<std::string> range_warnings(const Program& graph, const DeviceTypes& types);

}  // namespace runner::backends::tpu
