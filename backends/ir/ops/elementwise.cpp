// Arithmetic, comparisons, logic, choice and casts: element i of the result from elements i of the operands, which have
// one shape and, but for casts and conditions, one dtype.
#include <cmath>
#include <functional>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {

namespace {

// ---- types ----

TensorType bool_operand(Query q) {
  check(q.operands[0].dtype == DType::kBool, "{}: expected a bool tensor, got {}", name_of(q.op), q.operands[0]);
  return q.operands[0];
}

TensorType is_finite_type(Query q) {
  return {DType::kBool, float_operand(q).shape};
}

TensorType cast_type(Query q) {
  return {q.requested.dtype, q.operands[0].shape};
}

TensorType two_operands(Query q) {
  check(q.operands[0] == q.operands[1], "{}: expected operands of the same dtype, got {} and {}; cast one of them",
        name_of(q.op), q.operands[0], q.operands[1]);
  return q.operands[0];
}

TensorType two_numbers(Query q) {
  check(q.operands[0].dtype != DType::kBool, "{}: expected tensors of numbers, got {}", name_of(q.op), q.operands[0]);
  return two_operands(q);
}

TensorType two_floats(Query q) {
  check(is_float(q.operands[0].dtype), "{}: expected float tensors, got {}", name_of(q.op), q.operands[0]);
  return two_operands(q);
}

TensorType two_bools(Query q) {
  check(q.operands[0].dtype == DType::kBool, "{}: expected bool tensors, got {}", name_of(q.op), q.operands[0]);
  return two_operands(q);
}

TensorType comparison_type(Query q) {
  return {DType::kBool, two_operands(q).shape};
}

TensorType where_type(Query q) {
  const TensorType &condition = q.operands[0], &x = q.operands[1], &y = q.operands[2];
  check(condition.dtype == DType::kBool, "where: expected a bool condition, got {}", condition);
  check(x == y && condition.shape == x.shape,
        "where: expected operands of the same dtype, got {} and {}; cast one of them", x, y);
  return x;
}

// ---- folding: only if the result is exact in the compute type of every dtype; kernels decide about other bits ----

struct Absolute {
  double operator()(double x) const { return std::fabs(x); }
};

template <class Function>
ValueId fold_float(const FoldQuery& query) {
  const std::optional<double> x = query.constant(0);
  if (!x || !is_float(query.type().dtype)) return kNoValue;
  return query.to.constant(Function()(*x), query.type());
}

// Folds two f32 constants.
template <class Function>
ValueId fold_f32(const FoldQuery& query) {
  if (query.type().dtype != DType::kF32) return kNoValue;
  const std::optional<double> x = query.constant(0), y = query.constant(1);
  if (!x || !y) return kNoValue;
  return query.to.constant(Function()(static_cast<float>(*x), static_cast<float>(*y)), query.type());
}

// x − 0 is x; but x − (−0) turns −0 into 0.
ValueId fold_sub(const FoldQuery& query) {
  if (const ValueId known = fold_f32<std::minus<float>>(query); known != kNoValue) return known;
  return query.is_constant(1, 0.0) && !std::signbit(*query.constant(1)) ? query.operands[0] : kNoValue;
}

ValueId fold_mul(const FoldQuery& query) {
  if (const ValueId known = fold_f32<std::multiplies<float>>(query); known != kNoValue) return known;
  if (query.is_constant(1, 1.0)) return query.operands[0];
  return query.is_constant(0, 1.0) ? query.operands[1] : kNoValue;
}

ValueId fold_div(const FoldQuery& query) {
  if (const ValueId known = fold_f32<std::divides<float>>(query); known != kNoValue) return known;
  return query.is_constant(1, 1.0) ? query.operands[0] : kNoValue;
}

ValueId fold_where(const FoldQuery& query) {
  const std::optional<double> condition = query.constant(0);
  return condition ? query.operands[*condition != 0 ? 1 : 2] : kNoValue;
}

ValueId fold_cast(const FoldQuery& query) {
  return query.to.type(query.operands[0]).dtype == query.type().dtype ? query.operands[0] : kNoValue;
}

// ---- gradients ----

// d/dx x^y = y x^(y−1), zero at y = 0; d/dy x^y = x^y log x, zero at x = 0 with y ≥ 0 (as torch.pow).
void pow_gradient(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0), y = operand(result, 1);
  const Value zero = zeros_like(grad);
  const Value power = ops::mul(y, ops::pow(x, ops::sub(y, 1.0)));
  grads[0] = ops::where(ops::eq(y, zero), zero, ops::mul(grad, power));
  const Value flat = ops::logical_and(ops::eq(x, zero), ops::ge(y, zero));
  const Value safe = ops::where(flat, ops::full_like(x, 1.0), x);
  grads[1] = ops::where(flat, zero, ops::mul(grad, ops::mul(result, ops::log(safe))));
}

// Equal operands share the gradient, as torch.minimum.
template <Op wins>
void extremum_gradient(Value result, Value grad, Grads grads) {
  const Value a = operand(result, 0), b = operand(result, 1);
  const Value zero = zeros_like(grad);
  const Value half = ops::mul(grad, 0.5);
  const Value tie = ops::eq(a, b);
  grads[0] = ops::where(tie, half, ops::where(ops::binary(wins, a, b), grad, zero));
  grads[1] = ops::where(tie, half, ops::where(ops::binary(wins, b, a), grad, zero));
}

// ---- families ----

struct ArithmeticDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<XlaRule> xla_count;
  Required<NumberUses> numbers;
  XlaNames xla;
};
constexpr OpDef arithmetic(const ArithmeticDef& def) {
  return elementwise(ElementwiseDef{.infer = def.infer,
                                    .gradient = def.gradient,
                                    .fold = def.fold,
                                    .flops = flops<1>,
                                    .xla_count = def.xla_count,
                                    .numbers = def.numbers,
                                    .xla = def.xla});
}

constexpr OpDef comparison(std::string_view aten, std::string_view details) {
  return arithmetic(ArithmeticDef{.infer = comparison_type,
                                  .gradient = kNoGradient,
                                  .fold = kNoFold,
                                  .xla_count = xla_count<kOneFlop>,
                                  .numbers = NumberUses{ScalarUse::kValue, ScalarUse::kValue},
                                  .xla = xla_names(aten, hlo_instruction("compare", details))});
}

constexpr OpDef logical(Required<TypeRule> infer, std::string_view aten, std::string_view opcode) {
  return arithmetic(ArithmeticDef{.infer = infer,
                                  .gradient = kNoGradient,
                                  .fold = kNoFold,
                                  .xla_count = xla_count<kOneFlop>,
                                  .numbers = kNumbersAreOperands,
                                  .xla = xla_names(aten, hlo_instruction(opcode))});
}

}  // namespace

// ---- one operand ---------------------------------------------------------------------------------------------------

constexpr OpDef kNeg = arithmetic(ArithmeticDef{
    .infer = number_operand,
    .gradient = [](Value, Value grad, Grads grads) { grads[0] = ops::neg(grad); },
    .fold = fold_float<std::negate<double>>,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::neg", hlo_instruction("negate")),
});

constexpr OpDef kAbs = arithmetic(ArithmeticDef{
    .infer = number_operand,
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::mul(grad, ops::sign(operand(y, 0))); },
    .fold = fold_float<Absolute>,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::abs", hlo_instruction("abs")),
});

constexpr OpDef kSign = arithmetic(ArithmeticDef{
    .infer = number_operand,
    .gradient = kNoGradient,
    .fold = kNoFold,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::sign", hlo_instruction("sign")),
});

// Floats -> bool.
constexpr OpDef kIsFinite = logical(is_finite_type, "aten::isfinite", "is-finite");
constexpr OpDef kNot = logical(bool_operand, "aten::logical_not", "not");

// To the requested dtype; floats to integers truncate.
constexpr OpDef kCast = elementwise(ElementwiseDef{
    .infer = cast_type,
    .gradient =
        [](Value y, Value grad, Grads grads) {
          const Value x = operand(y, 0);
          if (is_float(x.dtype()) && is_float(y.dtype())) grads[0] = ops::cast(grad, x.dtype());
        },
    .fold = fold_cast,
    .flops = flops<0>,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("xla::cast", hlo_form(HloForm::kConvert, "convert")),
});

// ---- two operands --------------------------------------------------------------------------------------------------

constexpr OpDef kAdd = arithmetic(ArithmeticDef{
    .infer = two_numbers,
    .gradient = [](Value, Value grad, Grads grads) { grads[0] = grads[1] = grad; },
    .fold = fold_f32<std::plus<float>>,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::add", hlo_instruction("add")),
});

constexpr OpDef kSub = arithmetic(ArithmeticDef{
    .infer = two_numbers,
    .gradient =
        [](Value, Value grad, Grads grads) {
          grads[0] = grad;
          grads[1] = ops::neg(grad);
        },
    .fold = fold_sub,
    .xla_count = xla_count<kOneFlop>,
    .numbers = NumberUses{.before = ScalarUse::kFactor, .after = ScalarUse::kOperand},  // s − x is rsub(x, s, alpha)
    .xla = xla_names("aten::sub", hlo_instruction("subtract")),
});

constexpr OpDef kMul = arithmetic(ArithmeticDef{
    .infer = two_numbers,
    .gradient =
        [](Value y, Value grad, Grads grads) {
          grads[0] = ops::mul(grad, operand(y, 1));
          grads[1] = ops::mul(grad, operand(y, 0));
        },
    .fold = fold_mul,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::mul", hlo_instruction("multiply")),
});

constexpr OpDef kDiv = arithmetic(ArithmeticDef{
    .infer = two_floats,
    .gradient =
        [](Value y, Value grad, Grads grads) {
          const Value b = operand(y, 1);
          grads[0] = ops::div(grad, b);
          grads[1] = ops::neg(ops::div(ops::mul(grad, y), b));
        },
    .fold = fold_div,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::div", hlo_instruction("divide")),
});

constexpr OpDef kPow = arithmetic(ArithmeticDef{
    .infer = two_floats,
    .gradient = pow_gradient,
    .fold = kNoFold,
    .xla_count = xla_count<kOneTranscendental>,
    .numbers = NumberUses{ScalarUse::kAttribute, ScalarUse::kAttribute},
    .xla = xla_names("aten::pow", hlo_instruction("power")),
});

// NaN if either operand is.
constexpr OpDef kMin = arithmetic(ArithmeticDef{
    .infer = two_numbers,
    .gradient = extremum_gradient<Op::kLt>,
    .fold = kNoFold,
    .xla_count = xla_count<kOneFlop>,
    .numbers = NumberUses{ScalarUse::kFactor, ScalarUse::kFactor},  // clamp
    .xla = xla_names("aten::minimum", hlo_instruction("minimum")),
});

constexpr OpDef kMax = arithmetic(ArithmeticDef{
    .infer = two_numbers,
    .gradient = extremum_gradient<Op::kGt>,
    .fold = kNoFold,
    .xla_count = xla_count<kOneFlop>,
    .numbers = NumberUses{ScalarUse::kFactor, ScalarUse::kFactor},
    .xla = xla_names("aten::maximum", hlo_instruction("maximum")),
});

constexpr OpDef kEq = comparison("aten::eq", ", direction=EQ");
constexpr OpDef kNe = comparison("aten::ne", ", direction=NE");
constexpr OpDef kLt = comparison("aten::lt", ", direction=LT");
constexpr OpDef kLe = comparison("aten::le", ", direction=LE");
constexpr OpDef kGt = comparison("aten::gt", ", direction=GT");
constexpr OpDef kGe = comparison("aten::ge", ", direction=GE");

constexpr OpDef kAnd = logical(two_bools, "aten::logical_and", "and");
constexpr OpDef kOr = logical(two_bools, "aten::logical_or", "or");

// ---- three operands ------------------------------------------------------------------------------------------------

// (condition bool, x, y): x where true, else y.
constexpr OpDef kWhere = arithmetic(ArithmeticDef{
    .infer = where_type,
    .gradient =
        [](Value result, Value grad, Grads grads) {
          const Value condition = operand(result, 0);
          const Value zero = zeros_like(grad);
          grads[1] = ops::where(condition, grad, zero);
          grads[2] = ops::where(condition, zero, grad);
        },
    .fold = fold_where,
    .xla_count = xla_count<kOneFlop>,
    .numbers = kNumbersAreOperands,
    .xla = xla_names("aten::where", hlo_instruction("select")),
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value cast(Value x, DType dtype) {
  return x.dtype() == dtype ? x : record(Op::kCast, {x}, {}, {dtype, {}});
}

Value on_host(Value x) {
  return record(Op::kCast, {x}, {}, {x.dtype(), {}});
}

Value where(Value condition, Value x, Value y) {
  const Shape values = common_shape("where", x, y);
  x = expand(x, values);
  const Shape common = common_shape("where", condition, x);
  return record(Op::kWhere, {expand(condition, common), expand(x, common), expand(y, common)});
}

Value clamp(Value x, Value low, Value high) {
  if (low) x = where(lt(x, low), low, x);
  if (high) x = where(gt(x, high), high, x);
  return x;
}

Value clamp(Value x, std::optional<double> low, std::optional<double> high) {
  return clamp(x, low ? full_like(x, *low) : Value{}, high ? full_like(x, *high) : Value{});
}

}  // namespace runner::backends::ops
