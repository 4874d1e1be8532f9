#include "backends/graph/needed.h"

namespace runner::backends {

void mark_operands(const Program& program, std::vector<char>& marked) {
  for (ValueId id = program.size(); id-- > 0;)
    if (marked[static_cast<size_t>(id)])
      for (const ValueId operand : program.operands(id)) marked[static_cast<size_t>(operand)] = 1;
}

std::vector<char> needed_by_outputs(const Program& program) {
  std::vector<char> needed(static_cast<size_t>(program.size()), 0);
  for (const Output& output : program.outputs()) needed[static_cast<size_t>(output.value)] = 1;
  mark_operands(program, needed);
  return needed;
}

}  // namespace runner::backends
