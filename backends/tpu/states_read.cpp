#include "backends/tpu/states_read.h"

#include "backends/graph/needed.h"

namespace runner::backends::tpu {

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

}  // namespace runner::backends::tpu
