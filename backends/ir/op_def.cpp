#include "backends/ir/op_def.h"

#include "backends/ir/ops/definition.h"

namespace runner::backends {

constinit const OpDef* const kOpDefs[kOpCount] = {
#define RUNNER_OP(id, name, kind, least, most) &op_defs::id,
#include "backends/ir/op_list.def"
};

std::optional<double> FoldQuery::constant(size_t operand) const {
  const ValueId value = operands[operand];
  if (to.node(value).op != Op::kConstant) return std::nullopt;
  return to.constant_value(value);
}

TensorType result_type(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs,
                       const TensorType& requested) {
  return def_of(op).infer({op, operands, attrs, requested});
}

std::vector<TensorType> operand_types(const Program& program, ValueId id) {
  const std::span<const ValueId> operands = program.operands(id);
  std::vector<TensorType> types;
  types.reserve(operands.size());
  for (const ValueId operand : operands) types.push_back(program.type(operand));
  return types;
}

std::string_view aten_name(const Program& program, ValueId id) {
  const XlaNames& names = def_of(program.node(id).op).xla;
  const std::string_view of_matrices = names.aten_of_matrices;
  if (!of_matrices.empty() && program.type(id).shape.rank() == 2) return of_matrices;
  return names.aten;
}

NodeQuery::NodeQuery(const Program& program, ValueId id)
    : operands_(operand_types(program, id)),
      type_(program.type(id)),
      query_{program.node(id).op, operands_, program.attrs(id), {}} {}

}  // namespace runner::backends
