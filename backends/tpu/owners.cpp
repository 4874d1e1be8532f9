#include "backends/tpu/owners.h"

#include <algorithm>

namespace runner::backends::tpu {
namespace {

Owner owner_of_input(const Program& program, ValueId id) {
  if (!is_float(program.type(id).dtype)) return Owner::kNone;
  const bool state = program.input_of(id)->kind == InputKind::kState;
  return state && is_bookkeeping_state(program.type(id)) ? Owner::kEngine : Owner::kUser;
}

// Whether a node with operands reads or produces floats: a cast of integers, or anything computed from one.
bool computes_floats(const Program& program, ValueId id) {
  const auto operands = program.operands(id);
  return !operands.empty() && (is_float(program.type(id).dtype) || std::ranges::any_of(operands, [&](ValueId each) {
                                 return is_float(program.type(each).dtype);
                               }));
}

// Assigns kNone values that compute floats to the user unless bookkeeping reads them. Returns by node whether
// bookkeeping reads it.
std::vector<bool> assign_to_user(const Program& program, std::vector<Owner>& owners) {
  std::vector<bool> by_bookkeeping(owners.size());
  for (const Output& output : program.outputs())
    if (output.state >= 0 && is_bookkeeping_state(program.type(output.value)))
      by_bookkeeping[static_cast<size_t>(output.value)] = true;
  for (ValueId id = program.size(); id-- > 0;) {
    Owner& owner = owners[static_cast<size_t>(id)];
    const bool passes_on = owner == Owner::kNone && by_bookkeeping[static_cast<size_t>(id)];
    if (owner == Owner::kNone && !passes_on && computes_floats(program, id)) owner = Owner::kUser;
    if (!passes_on && (owner != Owner::kEngine || marks_host(program, id))) continue;
    for (const ValueId operand : program.operands(id)) by_bookkeeping[static_cast<size_t>(operand)] = true;
  }
  return by_bookkeeping;
}

std::vector<Owner> owners_by_operands(const Program& program) {
  std::vector<Owner> owners;
  for (ValueId id = 0; id < program.size(); ++id) {
    const Op op = program.node(id).op;
    Owner owner = Owner::kNone;
    bool depends_on_engine = false;  // through a condition or an integer
    for (const ValueId operand : program.operands(id)) {
      const Owner of_operand = owners[static_cast<size_t>(operand)];
      if (is_float(program.type(operand).dtype)) owner = std::max(owner, of_operand);
      depends_on_engine |= of_operand == Owner::kEngine;
    }
    if (owner == Owner::kNone && depends_on_engine) owner = Owner::kEngine;
    if (op == Op::kInput) owner = owner_of_input(program, id);
    if (kind_of(op) == OpKind::kRandom) owner = Owner::kUser;
    if (marks_host(program, id)) owner = Owner::kEngine;
    owners.push_back(owner);
  }
  return owners;
}

// By node: whether it is read, and only by on_host() marks.
std::vector<bool> read_by_marks(const Program& program) {
  std::vector<bool> marked(static_cast<size_t>(program.size())), otherwise(marked.size());
  for (ValueId id = 0; id < program.size(); ++id)
    for (const ValueId operand : program.operands(id))
      (marks_host(program, id) ? marked : otherwise)[static_cast<size_t>(operand)] = true;
  for (const Output& output : program.outputs()) otherwise[static_cast<size_t>(output.value)] = true;
  for (size_t id = 0; id < marked.size(); ++id) marked[id] = marked[id] && !otherwise[id];
  return marked;
}

}  // namespace

bool marks_host(const Program& program, ValueId id) {
  return program.node(id).op == Op::kCast && program.type(program.operands(id)[0]).dtype == program.type(id).dtype;
}

std::vector<Owner> owners_of(const Program& program) {
  std::vector<Owner> owners = owners_by_operands(program);
  assign_to_user(program, owners);
  return owners;
}

std::vector<bool> bookkeeping_nodes(const Program& program) {
  std::vector<Owner> owners = owners_by_operands(program);
  std::vector<bool> bookkeeping = assign_to_user(program, owners);
  const std::vector<bool> marked = read_by_marks(program);
  for (ValueId id = 0; id < program.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    const bool is_marked_input = program.node(id).op == Op::kInput && marked[at];
    bookkeeping[at] =
        owners[at] == Owner::kEngine || is_marked_input || (owners[at] == Owner::kNone && bookkeeping[at]);
  }
  return bookkeeping;
}

}  // namespace runner::backends::tpu
