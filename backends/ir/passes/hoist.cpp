#include "backends/ir/needed.h"
#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"

namespace runner::backends {
namespace {

// By node: whether its value is the same in every execution, and whether it depends on a state.
struct Constancy {
  std::vector<char> is_fixed, is_of_state;
};

Constancy constancy(const Program& program, int constant_states) {
  Constancy c{std::vector<char>(static_cast<size_t>(program.size())), {}};
  c.is_of_state = c.is_fixed;
  int states = 0;
  for (ValueId id = 0; id < program.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    if (const Input* const input = program.input_of(id)) {
      c.is_of_state[at] = input->kind == InputKind::kState && states++ < constant_states;
      c.is_fixed[at] = c.is_of_state[at];
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

// The nodes that are computed once: those that the rest reads, through views at most.
std::vector<ValueId> nodes_of_the_rest(const Program& program, const Constancy& c) {
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

void copy_inputs(Rewriter& rewriter, int constant_states) {
  for (const Input& input : rewriter.from().inputs())
    if (input.kind == InputKind::kState && constant_states-- > 0) rewriter.copy(input.value);
}

Program computing_once(const Program& program, std::span<const ValueId> hoisted, int constant_states) {
  Rewriter rewriter(program);
  for (const ValueId id : hoisted) rewriter.to().input(InputKind::kState, "computed once", program.type(id));
  copy_inputs(rewriter, constant_states);
  const std::vector<char> needed = needed_by(program, hoisted);
  for (ValueId id = 0; id < program.size(); ++id)
    if (needed[static_cast<size_t>(id)] != 0 && rewriter.mapped(id) == kNoValue) rewriter.copy(id);
  Program once = rewriter.finish_without_outputs();
  int32_t state = 0;
  for (const ValueId id : hoisted) once.output("computed once", rewriter.mapped(id), state++);
  return once;
}

}  // namespace

Hoisted hoist(const Program& program, int constant_states) {
  const std::vector<ValueId> hoisted = nodes_of_the_rest(program, constancy(program, constant_states));
  Rewriter rewriter(program);
  std::vector<TensorType> types;
  for (const ValueId id : hoisted) {
    types.push_back(program.type(id));
    rewriter.make_from(id);
    rewriter.map(id, rewriter.to().input(InputKind::kState, "computed once", types.back()));
  }
  for (ValueId id = 0; id < program.size(); ++id)
    if (rewriter.mapped(id) == kNoValue) rewriter.copy(id);
  Program each = rewriter.finish_without_outputs();
  for (Output output : program.outputs()) {
    output.value = rewriter.mapped(output.value);
    if (output.state >= 0) output.state += static_cast<int32_t>(hoisted.size());
    each.output(std::move(output));
  }
  return {computing_once(program, hoisted, constant_states), dce(each), std::move(types)};
}

}  // namespace runner::backends
