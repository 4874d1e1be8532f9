#include <algorithm>

#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"

namespace runner::backends {
namespace {

bool is_view_of_input(const Program& program, ValueId id) {
  while (is_view(program, id)) id = program.operands(id)[0];
  return program.node(id).op == Op::kInput;
}

// Whether an element-wise node reads only constants, or a constant condition. Its kernel needs a tensor in memory then.
bool reads_bare_constants(const Program& program, ValueId id) {
  if (!is_elementwise(program.node(id).op)) return false;
  const auto is_constant = [&](ValueId operand) { return program.node(operand).op == Op::kConstant; };
  const std::span<const ValueId> operands = program.operands(id);
  if (program.node(id).op == Op::kWhere && is_constant(operands[0])) return true;
  return std::all_of(operands.begin(), operands.end(), is_constant);
}

// Inserts an expand to the same shape before the first operand, which puts the constant into memory.
void copy_with_operand_in_memory(Rewriter& rewriter, ValueId id) {
  const Program& from = rewriter.from();
  Program& to = rewriter.to();
  rewriter.make_from(id);
  std::vector<ValueId> operands = rewriter.mapped_operands(id);
  const ValueId constant[] = {operands[0]};
  operands[0] = to.record(Op::kExpand, constant, {}, from.type(from.operands(id)[0]));
  rewriter.map(id, to.record(from.node(id).op, operands, from.attrs(id), from.type(id)));
}

}  // namespace

Program legalise(const Program& program) {
  std::vector<char> leaves(static_cast<size_t>(program.size()), 0);
  for (const Output& output : program.outputs()) leaves[static_cast<size_t>(output.value)] = 1;

  Rewriter rewriter(program);
  std::vector<ValueId> leaving(static_cast<size_t>(program.size()), kNoValue);
  for (ValueId id = 0; id < program.size(); ++id) {
    if (reads_bare_constants(program, id)) {
      copy_with_operand_in_memory(rewriter, id);
    } else {
      rewriter.copy(id);
    }
    leaving[static_cast<size_t>(id)] = rewriter.mapped(id);
    // Copied as early as possible, so that the read does not prevent a state from being updated in place.
    if (leaves[static_cast<size_t>(id)] && is_view_of_input(program, id)) {
      const ValueId operands[] = {rewriter.mapped(id)};
      leaving[static_cast<size_t>(id)] = rewriter.to().record(Op::kCast, operands, {}, program.type(id));
    }
  }
  for (const Output& output : program.outputs())
    rewriter.to().output(output.name, leaving[static_cast<size_t>(output.value)], output.state);
  return rewriter.finish_without_outputs();
}

}  // namespace runner::backends
