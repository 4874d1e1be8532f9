#include "backends/ir/op_def.h"

#include "backends/ir/ops/definition.h"

namespace runner::backends {

constinit const OpDef* const kOpDefs[kOpCount] = {
#define RUNNER_OP(id, name, kind, least, most) &op_defs::id,
#include "backends/ir/op_list.def"
};

namespace {

std::vector<TensorType> types_of(const Program& program, std::span<const ValueId> values) {
  std::vector<TensorType> types;
  types.reserve(values.size());
  for (const ValueId value : values) types.push_back(program.type(value));
  return types;
}

}  // namespace

std::optional<double> FoldQuery::constant(size_t operand) const {
  const ValueId value = operands[operand];
  if (to.node(value).op != Op::kConstant) return std::nullopt;
  return to.constant_value(value);
}

TensorType result_type(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs,
                       const TensorType& requested) {
  return def_of(op).infer({op, operands, attrs, requested});
}

std::string_view aten_name(const Program& program, ValueId id) {
  const XlaNames& names = def_of(program.node(id).op).xla;
  const std::string_view of_matrices = names.aten_of_matrices;
  if (!of_matrices.empty() && program.type(id).shape.rank() == 2) return of_matrices;
  return names.aten;
}

NodeQuery::NodeQuery(const Program& program, ValueId id)
    : operands_(types_of(program, program.operands(id))),
      type_(program.type(id)),
      query_{program.node(id).op, operands_, program.attrs(id), {}} {}

}  // namespace runner::backends
