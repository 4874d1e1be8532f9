// What a traced graph has that the number types of a device cannot hold, or compute only slowly.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Texts with the line of the op, each once: constants that overflow, such as masks, and tensors of f64 that stay so.
std::vector<std::string> range_warnings(const Program& graph, const DeviceTypes& types);
// The same of the numbers that a graph is handed as it is compiled.
std::vector<std::string> range_warnings_of_numbers(const GraphIdentity& graph, const DeviceTypes& types);

// A tensor that a line of a hook gives with each run of a Program, as nn.tensor{…}: which of the batch it is.
struct GivenTensor {
  size_t batch;
  TensorType type;
  Origin origin;
};
std::vector<GivenTensor> given_tensors(const Program& program);
// The same of the first number of each that overflows.
std::vector<std::string> range_warnings_of_given(std::span<const GivenTensor> tensors,
                                                 std::span<const std::byte* const> batch, const SourceLines& lines,
                                                 const DeviceTypes& types);

}  // namespace runner::backends::tpu
