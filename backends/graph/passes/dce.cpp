#include "backends/graph/needed.h"
#include "backends/graph/passes/passes.h"
#include "backends/graph/passes/rewriter.h"

namespace runner::backends {

Program dce(const Program& program) {
  std::vector<char> live = needed_by_outputs(program);
  for (ValueId id = 0; id < program.size(); ++id)
    if (is_collective(program.node(id).op)) live[static_cast<size_t>(id)] = 1;
  mark_operands(program, live);

  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id)
    if (live[static_cast<size_t>(id)] || program.node(id).op == Op::kInput) rewriter.copy(id);
  return rewriter.finish();
}

}  // namespace runner::backends
