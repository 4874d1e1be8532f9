#include "backends/tpu/owners.h"

#include <algorithm>

namespace runner::backends::tpu {
namespace {

Owner owner_of_input(const Program& program, ValueId id) {
  const DType dtype = program.type(id).dtype;
  if (!is_float(dtype)) return Owner::kNobody;
  const bool state = program.inputs()[static_cast<size_t>(program.attrs(id)[1])].kind == InputKind::kState;
  return state && dtype == DType::kF64 ? Owner::kEngine : Owner::kUser;
}

}  // namespace

bool marks_host(const Program& program, ValueId id) {
  return program.node(id).op == Op::kCast && program.type(program.operands(id)[0]).dtype == program.type(id).dtype;
}

std::vector<Owner> owners_of(const Program& program) {
  std::vector<Owner> owners;
  for (ValueId id = 0; id < program.size(); ++id) {
    const Op op = program.node(id).op;
    Owner owner = Owner::kNobody;
    for (const ValueId operand : program.operands(id))
      if (is_float(program.type(operand).dtype)) owner = std::max(owner, owners[static_cast<size_t>(operand)]);
    if (op == Op::kInput) owner = owner_of_input(program, id);
    if (row_of(op).cls == OpClass::kRandom) owner = Owner::kUser;
    if (marks_host(program, id)) owner = Owner::kEngine;
    owners.push_back(owner);
  }
  return owners;
}

}  // namespace runner::backends::tpu
