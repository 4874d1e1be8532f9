#include <vector>

#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {
namespace {

// Writes a value after the nodes that it depends on, the last operand first.
void emit(Rewriter& rewriter, ValueId root) {
  std::vector<ValueId> stack = {root};
  while (!stack.empty()) {
    const ValueId id = stack.back();
    const size_t waiting = stack.size();
    if (rewriter.mapped(id) == kNoValue)
      for (const ValueId operand : rewriter.from().operands(id))
        if (rewriter.mapped(operand) == kNoValue) stack.push_back(operand);
    if (stack.size() > waiting) continue;
    if (rewriter.mapped(id) == kNoValue) rewriter.copy(id);
    stack.pop_back();
  }
}

}  // namespace

Program in_post_order(const Program& program) {
  Rewriter rewriter(program);
  for (const Output& output : program.outputs()) emit(rewriter, output.value);
  Program ordered = rewriter.finish_without_outputs();
  for (const Output& output : program.outputs()) {
    const ValueId state =
        output.state < 0 ? kNoValue : rewriter.mapped(program.inputs()[static_cast<size_t>(output.state)].value);
    ordered.output(output.name, rewriter.mapped(output.value), state == kNoValue ? -1 : ordered.input_index(state));
  }
  return ordered;
}

}  // namespace runner::backends
