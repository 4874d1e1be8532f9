#include <vector>

#include "backends/ir/needed.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

std::vector<char> needed_nodes(const Program& program, Keep keep) {
  std::vector<char> needed = needed_by_outputs(program);
  if (keep != Keep::kInputsAndCollectives) return needed;
  for (ValueId id = 0; id < program.size(); ++id)
    if (is_collective(program.node(id).op)) needed[static_cast<size_t>(id)] = 1;
  mark_operands(program, needed);
  return needed;
}

bool keeps_input(Keep keep, InputKind kind, bool is_leading) {
  switch (keep) {
    case Keep::kInputsAndCollectives: return true;
    case Keep::kStates: return kind == InputKind::kState;
    case Keep::kLeadingInputs: return is_leading;
  }
  RUN_ASSERT(false);
}

}  // namespace

Program prune(const Program& program, Keep keep) {
  const std::vector<char> needed = needed_nodes(program, keep);
  Rewriter rewriter(program);
  bool is_leading = true;
  for (ValueId id = 0; id < program.size(); ++id) {
    const Input* const input = program.input_of(id);
    is_leading &= input != nullptr;
    if (needed[static_cast<size_t>(id)] || (input != nullptr && keeps_input(keep, input->kind, is_leading)))
      rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace runner::backends
