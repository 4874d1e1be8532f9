#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"

namespace runner::backends {
namespace {

bool is_widening(const Program& program, ValueId id) {
  if (program.node(id).op != Op::kCast || program.type(id).dtype != DType::kF32) return false;
  const DType narrow = program.type(program.operands(id)[0]).dtype;
  return is_float(narrow) && size_of(narrow) == 2;
}

// Whether a kernel of its own computes the node.
bool is_kernel(const Program& program, ValueId id) {
  const Op op = program.node(id).op;
  return op != Op::kInput && !is_elementwise(op) && !is_broadcast(op) && !is_view(program, id);
}

}  // namespace

Program repeat_casts(const Program& program) {
  Rewriter rewriter(program);
  ValueId newest_kernel = 0;  // in the new Program
  for (ValueId id = 0; id < program.size(); ++id) {
    if (is_elementwise(program.node(id).op))
      for (const ValueId operand : program.operands(id))
        if (is_widening(program, operand) && rewriter.mapped(operand) < newest_kernel) rewriter.copy(operand);
    const ValueId now = rewriter.copy(id);
    if (is_kernel(program, id)) newest_kernel = now;
  }
  return dce(rewriter.finish());  // casts whose readers all have copies
}

}  // namespace runner::backends
