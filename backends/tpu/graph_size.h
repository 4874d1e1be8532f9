// How large a traced graph is, counted as PyTorch/XLA counts: by nodes and by tensors.
#pragma once

#include <span>
#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

// The states that something an output needs is computed from, by index among the states.
std::vector<int32_t> states_read(const Program& program);

// `state_tensors`: how many tensors each state holds; a state that is missing there holds one.
GraphSize size_of_graph(const GraphIdentity& graph, std::span<const std::vector<TensorType>> state_tensors);

}  // namespace runner::backends::tpu
