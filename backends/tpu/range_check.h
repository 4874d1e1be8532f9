// Warns about values that the device's number types cannot represent or compute only slowly.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/graph.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Returns distinct warnings with the line of the op: constants that overflow, such as masks, and f64 tensors that stay
// f64.
std::vector<std::string> range_warnings(const Program& graph, const DeviceTypes& types);
// The same for the host scalars passed to a graph when it is compiled.
std::vector<std::string> range_warnings_of_numbers(const GraphIdentity& graph, const DeviceTypes& types);

// A tensor literal of a hook (nn.tensor{…}), which is passed as a batch input with each run. `batch`: index of the
// input.
struct GivenTensor {
  size_t batch;
  TensorType type;
  Origin origin;
};
std::vector<GivenTensor> given_tensors(const Program& program);
// Returns a warning for the first element of each tensor literal that overflows.
std::vector<std::string> range_warnings_of_given(std::span<const GivenTensor> tensors,
                                                 std::span<const std::byte* const> batch, const SourceLines& lines,
                                                 const DeviceTypes& types);

}  // namespace runner::backends::tpu
