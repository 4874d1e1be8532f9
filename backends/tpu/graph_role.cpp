#include "backends/tpu/graph_role.h"

#include <algorithm>

#include "backends/exec/backend.h"

namespace runner::backends::tpu {

// f64 states are engine bookkeeping (owners.h), which evaluations update as well.
GraphRole role_of(const Program& graph) {
  const auto outputs = graph.outputs();
  if (outputs.size() == 1 && outputs[0].name == kReadOutput) return GraphRole::kRead;
  const bool updates = std::ranges::any_of(outputs, [&](const Output& output) {
    return output.state >= 0 && graph.type(output.value).dtype != DType::kF64;
  });
  return updates ? GraphRole::kUpdate : GraphRole::kForward;
}

}  // namespace runner::backends::tpu
