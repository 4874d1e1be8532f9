#include <utility>

#include "backends/ir/needed.h"
#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// By node: whether its value is the same in every execution, and whether it depends on a constant state.
struct Constancy {
  std::vector<char> is_fixed, is_of_state;
};

Constancy constancy(const Program& program, int constant_states) {
  Constancy c{std::vector<char>(static_cast<size_t>(program.size())), {}};
  c.is_of_state = c.is_fixed;
  for (ValueId id = 0; id < program.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    if (program.node(id).op == Op::kInput) {
      c.is_fixed[at] = c.is_of_state[at] = program.input_index(id) < constant_states;
      continue;
    }
    c.is_fixed[at] = kind_of(program.node(id).op) != OpKind::kCollective;
    for (const ValueId operand : program.operands(id)) {
      c.is_fixed[at] = c.is_fixed[at] && c.is_fixed[static_cast<size_t>(operand)];
      c.is_of_state[at] = c.is_of_state[at] || c.is_of_state[static_cast<size_t>(operand)];
    }
  }
  return c;
}

// The nodes that the rest of the Program reads, through views at most.
std::vector<ValueId> nodes_to_hoist(const Program& program, const Constancy& c) {
  std::vector<char> read(static_cast<size_t>(program.size()));
  std::vector<ValueId> hoisted;
  for (const Output& output : program.outputs()) read[static_cast<size_t>(output.value)] = 1;
  for (ValueId id = program.size(); id-- > 0;) {
    const auto at = static_cast<size_t>(id);
    if (read[at] == 0) continue;
    if (c.is_fixed[at] && c.is_of_state[at] && program.input_of(id) == nullptr && !is_free(program, id)) {
      hoisted.push_back(id);
      continue;
    }
    for (const ValueId operand : program.operands(id)) read[static_cast<size_t>(operand)] = 1;
  }
  return {hoisted.rbegin(), hoisted.rend()};
}

Program program_of(const Program& program, ValueId hoisted, int constant_states) {
  Rewriter rewriter(program);
  rewriter.to().input(InputKind::kState, "hoisted", program.type(hoisted));
  for (int i = 0; i < constant_states; ++i) rewriter.copy(program.inputs()[static_cast<size_t>(i)].value);
  const std::vector<char> needed = needed_by(program, {&hoisted, 1});
  for (ValueId id = 0; id < program.size(); ++id)
    if (needed[static_cast<size_t>(id)] != 0 && rewriter.mapped(id) == kNoValue) rewriter.copy(id);
  Program once = rewriter.finish_without_outputs();
  once.output("hoisted", rewriter.mapped(hoisted), /*state=*/0);
  return once;
}

void check(const Program& program, int constant_states) {
  for (size_t i = 0; i < program.inputs().size(); ++i)
    RUN_ASSERT(std::cmp_greater_equal(i, constant_states) || program.inputs()[i].kind == InputKind::kState);
  for (const Output& output : program.outputs()) RUN_ASSERT(output.state < 0 || output.state >= constant_states);
  for (const Input& input : program.inputs()) RUN_ASSERT(input.rounded_of < 0);
}

}  // namespace

Hoisted hoist(const Program& program, int constant_states) {
  check(program, constant_states);
  const std::vector<ValueId> nodes = nodes_to_hoist(program, constancy(program, constant_states));
  Rewriter rewriter(program);
  Hoisted hoisted;
  for (const ValueId id : nodes) {
    hoisted.values.push_back(program_of(program, id, constant_states));
    rewriter.make_from(id);
    rewriter.map(id, rewriter.to().input(InputKind::kState, "hoisted", program.type(id)));
  }
  for (ValueId id = 0; id < program.size(); ++id)
    if (rewriter.mapped(id) == kNoValue) rewriter.copy(id);
  Program rest = rewriter.finish_without_outputs();
  for (Output output : program.outputs()) {
    output.value = rewriter.mapped(output.value);
    if (output.state >= 0) output.state += static_cast<int32_t>(nodes.size());
    rest.output(std::move(output));
  }
  hoisted.rest = dce(rest);
  return hoisted;
}

}  // namespace runner::backends
