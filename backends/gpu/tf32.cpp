#include "backends/gpu/tf32.h"

#include <vector>

#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends::gpu {

// In f64, 2^42·x + x keeps the bits of x down to the 10th after its leading bit and rounds there, to nearest with ties
// to even, because the bits of 2^42·x begin above them. Subtracting 2^42·x is exact, but loses the sign of a zero.
Value rounded_to_tf32(Value x) {
  constexpr double kShift = 0x1p42;
  const Value wide = ops::cast(x, DType::kF64);
  const Value rounded = ops::sub(ops::mul(wide, kShift + 1), ops::mul(wide, kShift));
  const Value is_rounded = ops::logical_and(ops::is_finite(x), ops::ne(x, ops::full_like(x, 0.0)));
  return ops::where(is_rounded, ops::cast(rounded, DType::kF32), x);
}

Program with_tf32_products(const Program& program) {
  Rewriter rewriter(program);
  std::vector<Value> rounded(static_cast<size_t>(program.size()));
  const auto operand = [&](ValueId old) {
    Value& value = rounded[static_cast<size_t>(old)];
    if (!value) value = rounded_to_tf32({&rewriter.to(), rewriter.mapped(old)});
    return value.id;
  };
  for (ValueId id = 0; id < program.size(); ++id) {
    const Node& node = program.node(id);
    const int matrix_operands = def_of(node.op).matrix_operands;
    if (matrix_operands == 0 || program.type(program.operands(id)[0]).dtype != DType::kF32) {
      rewriter.copy(id);
      continue;
    }
    rewriter.make_from(id);
    std::vector<ValueId> operands = rewriter.mapped_operands(id);  // an addend may follow the factors
    for (size_t i = 0; i < static_cast<size_t>(matrix_operands); ++i) operands[i] = operand(program.operands(id)[i]);
    rewriter.map(id, rewriter.to().record(node.op, operands, program.attrs(id), node.type));
  }
  return rewriter.finish();
}

}  // namespace runner::backends::gpu
