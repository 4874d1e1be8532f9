// Inputs and constants.
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {

// A value from outside the Program: an InputKind, and an index among the inputs.
constexpr Attribute kInputAttributes[] = {
    {"kind", Type::kInt, one_of(3), kAlways, kValue, "", ""},
    {"index", Type::kInt, kNatural, kAlways, kValue, "", ""},
};

constexpr OpDef kInput = {
    .attributes = Attributes(kInputAttributes),
    .infer = as_requested,
    .gradient = kNoGradient,
    .fold = kNoFold,
    .combines_by = std::nullopt,
    .product = kNoProduct,
    .matrix_operands = 0,
    .cost = {.flops = flops<0>, .xla = xla_count<kNoArithmetic>, .traffic = kUntouched},
    .batch = BatchRule::kGrows,
    .memory = MemoryRule::kBuffer,
    .in_place = InPlaceRule::kNever,
    .autocast = AutocastRule::kAsGiven,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("xla::device_data", hlo_form(HloForm::kParameter, "parameter")),
};

// A tensor whose elements all have one value, exact in its dtype.
constexpr Attribute kConstantAttributes[] = {
    {"value", Type::kF64, kAnyInt, kAlways, kValue, "", ""},
};

constexpr OpDef kConstant = {
    .attributes = Attributes(kConstantAttributes),
    .infer = as_requested,
    .gradient = kNoGradient,
    .fold = kNoFold,
    .combines_by = std::nullopt,
    .product = kNoProduct,
    .matrix_operands = 0,
    .cost = {.flops = flops<0>, .xla = xla_count<kNoArithmetic>, .traffic = kEachOnce},
    .batch = BatchRule::kGrows,
    .memory = MemoryRule::kBroadcast,
    .in_place = InPlaceRule::kNever,
    .autocast = AutocastRule::kAsGiven,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("prim::Constant", hlo_form(HloForm::kConstant, "constant")),
};

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value full_like(Value like, double value) {
  return {like.program, like.program->constant(value, like.type())};
}

Value vector(Program& program, std::span<const double> numbers) {
  std::vector<Value> parts;
  parts.reserve(numbers.size());
  for (const double number : numbers) parts.push_back({&program, program.constant(number, {DType::kF32, Shape{1}})});
  return concat(parts, 0);
}

// Doubles the sequence so far: a few nodes for each bit of the size.
Value arange(Program& program, int64_t size) {
  Value values{&program, program.constant(0, {DType::kI64, Shape{1}})};
  while (values.shape()[0] < size) {
    const Value parts[] = {values, add(values, static_cast<double>(values.shape()[0]))};
    values = concat(parts, 0);
  }
  return slice(values, 0, 0, size);
}

}  // namespace runner::backends::ops
