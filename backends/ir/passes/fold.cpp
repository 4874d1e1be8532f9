#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {

Program fold(const Program& program) {
  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id) {
    const FoldRule rule = def_of(program.node(id).op).fold;
    if (rule == kNoFold) {
      rewriter.copy(id);
      continue;
    }
    rewriter.make_from(id);
    const std::vector<ValueId> operands = rewriter.mapped_operands(id);
    const ValueId known = rule({program, id, rewriter.to(), operands});
    if (known == kNoValue) {
      rewriter.copy(id);
    } else {
      rewriter.map(id, known);
    }
  }
  return rewriter.finish();
}

}  // namespace runner::backends
