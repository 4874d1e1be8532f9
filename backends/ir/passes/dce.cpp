#include <vector>

#include "backends/ir/needed.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {
namespace {

bool is_input_of(const Program& program, ValueId id, InputKind kind) {
  return program.node(id).op == Op::kInput && static_cast<InputKind>(program.attrs(id)[0]) == kind;
}

}  // namespace

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

Program part_for_outputs(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id)
    if (needed[static_cast<size_t>(id)] || is_input_of(program, id, InputKind::kState)) rewriter.copy(id);
  return rewriter.finish();
}

Program live_part(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  Rewriter rewriter(program);
  bool begins = true;
  for (ValueId id = 0; id < program.size(); ++id) {
    begins &= program.node(id).op == Op::kInput;
    if (begins || needed[static_cast<size_t>(id)]) rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace runner::backends
