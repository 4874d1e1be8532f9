#include "backends/tpu/graph_size.h"

#include <algorithm>

#include "backends/graph/needed.h"

namespace runner::backends::tpu {
namespace {

int64_t tensors_of(std::span<const std::vector<TensorType>> state_tensors, int32_t state) {
  const auto at = static_cast<size_t>(state);
  return at < state_tensors.size() ? static_cast<int64_t>(state_tensors[at].size()) : 1;
}

// Numbers that are no part of the graph, equal ones once.
int64_t scalar_inputs(const ScalarSignature& signature) {
  int64_t inputs = 0;
  for (size_t i = 0; i < signature.size(); ++i) inputs += signature[i] == static_cast<int64_t>(i);
  return inputs;
}

}  // namespace

std::vector<int32_t> states_read(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<int32_t> states;
  int32_t state = 0;
  for (const Input& input : program.inputs()) {
    if (input.kind != InputKind::kState) continue;
    if (needed[static_cast<size_t>(input.value)]) states.push_back(state);
    ++state;
  }
  return states;
}

GraphSize size_of_graph(const GraphIdentity& graph, std::span<const std::vector<TensorType>> state_tensors) {
  const Program& program = *graph.program;
  const std::vector<char> needed = needed_by_outputs(program);
  const std::vector<int32_t> read = states_read(program);
  const auto exists = [&](int32_t state) { return !std::ranges::binary_search(graph.absent, state); };
  GraphSize size;
  size.nodes = std::ranges::count(needed, 1);
  size.inputs = scalar_inputs(graph.signature);
  for (const Input& input : program.inputs())
    size.inputs += input.kind == InputKind::kBatch && needed[static_cast<size_t>(input.value)];
  for (const int32_t state : read) size.inputs += exists(state) ? tensors_of(state_tensors, state) : 0;
  for (const Output& output : program.outputs()) {
    const int64_t tensors = output.state < 0 ? 1 : tensors_of(state_tensors, output.state);
    const bool donates = output.state >= 0 && exists(output.state) && std::ranges::binary_search(read, output.state);
    size.outputs += tensors;
    size.donated += donates ? tensors : 0;
  }
  return size;
}

}  // namespace runner::backends::tpu
