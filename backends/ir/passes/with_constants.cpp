#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {

Program with_constants(const Program& program, std::span<const std::optional<double>> by_input) {
  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id) {
    const ValueId now = rewriter.copy(id);
    if (program.node(id).op != Op::kInput) continue;
    if (const std::optional<double>& value = by_input[static_cast<size_t>(program.attrs(id)[1])])
      rewriter.map(id, rewriter.to().constant(*value, rewriter.to().type(now)));
  }
  return rewriter.finish();
}

}  // namespace runner::backends
