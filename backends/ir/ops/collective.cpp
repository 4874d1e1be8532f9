// Collective ops.
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

constexpr Attribute kAllReduceAttributes[] = {
    {"reduction", Type::kInt, one_of(static_cast<int64_t>(Reduction::kMax) + 1), kAlways, kValue, "", ""},
    {"subject", Type::kInt, one_of(static_cast<int64_t>(Subject::kStatistics) + 1), kAlways, kValue, "", ""},
};

TensorType all_reduce_type(Query q) {
  check(is_reduced(q.operands[0].dtype), "all_reduce: expected a tensor of f32, f64, i32 or i64, got {}",
        q.operands[0]);
  return q.operands[0];
}

// For sums only. The operand of a rank contributes to the results of all ranks, so its gradient is the sum of theirs.
void all_reduce_gradient(Value result, Value grad, Grads grads) {
  const std::span<const int64_t> attributes = attrs(result);
  const auto reduction = static_cast<Reduction>(attributes[0]);
  const auto subject = static_cast<Subject>(attributes[1]);
  if (reduction == Reduction::kSum) grads[0] = ops::all_reduce(grad, reduction, subject);
}

}  // namespace

// All-reduce over the ranks.
constexpr OpDef kAllReduce = {
    .attributes = Attributes(kAllReduceAttributes),
    .infer = all_reduce_type,
    .gradient = all_reduce_gradient,
    .fold = kNoFold,
    .combines_by = std::nullopt,
    .product = kNoProduct,
    .matrix_operands = 0,
    .cost = {.flops = flops<1>, .xla = xla_count<kOneFlop>, .traffic = kEachOnce},
    .batch = BatchRule::kGrows,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kSameElement,
    .autocast = AutocastRule::kAsGiven,
    .numbers = kNumbersAreOperands,
    .xla =
        {.aten = "xla::cross_replica_sum",
         .aten_of_matrices = "",
         .hlo =
             Hlo{.form = HloForm::kInstruction, .opcode = "all-reduce", .details = "", .scalar = "", .applies = "add"}},
};

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value all_reduce(Value x, Reduction reduction, Subject subject) {
  return record(Op::kAllReduce, {x}, {{static_cast<int64_t>(reduction), static_cast<int64_t>(subject)}});
}

}  // namespace runner::backends::ops
