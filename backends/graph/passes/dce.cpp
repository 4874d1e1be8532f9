#include "backends/graph/passes/passes.h"
#include "backends/graph/passes/rewriter.h"

namespace runner::backends {

Program dce(const Program& program) {
  std::vector<char> live(static_cast<size_t>(program.size()), 0);
  for (const Output& output : program.outputs()) live[static_cast<size_t>(output.value)] = 1;
  for (ValueId id = 0; id < program.size(); ++id)
    if (is_collective(program.node(id).op)) live[static_cast<size_t>(id)] = 1;
  for (ValueId id = program.size(); id-- > 0;)
    if (live[static_cast<size_t>(id)])
      for (const ValueId operand : program.operands(id)) live[static_cast<size_t>(operand)] = 1;

  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id)
    if (live[static_cast<size_t>(id)] || program.node(id).op == Op::kInput) rewriter.copy(id);
  return rewriter.finish();
}

}  // namespace runner::backends
