// Softmax and layer normalisation, over the last axis.
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {

void check_gradient(const TensorType& grad, const TensorType& result, std::string_view op) {
  check(grad == result, "{}: expected a gradient of type {}, got {}", op, result, grad);
}

namespace {

// ---- types ----

TensorType softmax_type(Query q) {
  check(q.operands[0].shape.rank() >= 1, "{}: expected at least one axis, got a scalar", name_of(q.op));
  return float_operand(q);
}

const TensorType& layer_norm_operand(Query q) {
  const TensorType& x = q.operands[0];
  check(is_float(x.dtype) && x.shape.rank() >= 1, "{}: expected a float tensor with at least one axis, got {}",
        name_of(q.op), x);
  return x;
}

void check_row(Query q, size_t at, const char* what) {
  const TensorType& x = q.operands[0];
  const TensorType wanted{x.dtype, Shape{x.shape.back()}};
  check(q.operands[at] == wanted, "{}: expected {} {}, got {}", name_of(q.op), what, wanted, q.operands[at]);
}

TensorType layer_norm_type(Query q) {
  const TensorType& x = layer_norm_operand(q);
  check_row(q, 1, "gamma");
  check_row(q, 2, "beta");
  return x;
}

TensorType rms_norm_type(Query q) {
  const TensorType& x = layer_norm_operand(q);
  check_row(q, 1, "a weight");
  return x;
}

TensorType layer_norm_grad_x_type(Query q) {
  const TensorType& x = layer_norm_operand(q);
  check_row(q, 1, "gamma");
  check_gradient(q.operands[2], x, name_of(q.op));
  return x;
}

TensorType layer_norm_grad_gamma_type(Query q) {
  const TensorType& x = layer_norm_operand(q);
  check_gradient(q.operands[1], x, name_of(q.op));
  return {x.dtype, Shape{x.shape.back()}};
}

TensorType rotary_table_type(Query q) {
  const TensorType &positions = q.operands[0], &frequencies = q.operands[1];
  const bool fits = positions.dtype == DType::kI64 && positions.shape.rank() >= 1 && positions.shape.rank() <= 2 &&
                    is_float(frequencies.dtype) && frequencies.shape.rank() == 1 && frequencies.shape[0] > 0;
  check(fits, "rotary_table: expected positions (T) or (B, T) i64 and frequencies (D / 2) of floats, got {} and {}",
        positions, frequencies);
  return append_axis(frequencies.dtype, positions.shape, 2 * frequencies.shape[0]);
}

TensorType rotary_type(Query q) {
  const TensorType &x = q.operands[0], &table = q.operands[1];
  check(is_float(x.dtype) && x.shape.rank() == 4 && x.shape[3] % 2 == 0,
        "rotary: expected floats (B, H, T, D) with an even D, got {}", x);
  const Shape shared{x.shape[2], x.shape[3]}, own{x.shape[0], x.shape[2], x.shape[3]};
  const bool is_f64 = x.dtype == DType::kF64;
  const bool fits = is_float(table.dtype) && is_f64 == (table.dtype == DType::kF64);
  check(fits && (table.shape == shared || table.shape == own), "rotary: expected a table {} or {} of {}, got {}",
        shared, own, is_f64 ? "f64" : "f32, bf16 or f16", table);
  return x;
}

TensorType top_k_type(Query q) {
  const TensorType& x = q.operands[0];
  const int64_t k = q.attrs[0];
  check(is_float(x.dtype) && x.shape.rank() >= 1, "top_k: expected floats with at least one axis, got {}", x);
  check(k >= 1 && k <= x.shape.back(), "top_k: expected k of 1 to {}, got {}", x.shape.back(), k);
  return {DType::kI64, x.shape.with(x.shape.rank() - 1, k)};
}

// ---- gradients ----

// The rotation by the negative angles.
void rotary_gradient(Value result, Value grad, Grads grads) {
  const int64_t inverse[] = {attrs(result)[0] == 0};
  const ValueId operands[] = {grad.id, operand(result, 1).id};
  grads[0] = {result.program, result.program->record(Op::kRotary, operands, inverse)};
}

void softmax_gradient(Value y, Value grad, Grads grads) {
  const int64_t last[] = {-1};
  const Value dot = ops::sum(ops::mul(grad, y), last, true);
  grads[0] = ops::mul(y, ops::sub(grad, dot));
}

void log_softmax_gradient(Value y, Value grad, Grads grads) {
  const int64_t last[] = {-1};
  grads[0] = ops::sub(grad, ops::mul(ops::exp(y), ops::sum(grad, last, true)));
}

void layer_norm_gradient(Value result, Value grad, Grads grads) {
  Program& program = *result.program;
  const Value x = operand(result, 0), gamma = operand(result, 1);
  const int64_t eps[] = {attrs(result)[0]};
  const ValueId of_x[] = {x.id, gamma.id, grad.id}, of_gamma[] = {x.id, grad.id};
  grads[0] = {&program, program.record(Op::kLayerNormGradX, of_x, eps)};
  grads[1] = {&program, program.record(Op::kLayerNormGradGamma, of_gamma, eps)};
  std::vector<int64_t> leading;
  for (int axis = 0; axis + 1 < x.shape().rank(); ++axis) leading.push_back(axis);
  grads[2] = leading.empty() ? grad : ops::sum(grad, leading);
}

void rms_norm_gradient(Value result, Value grad, Grads grads) {
  Program& program = *result.program;
  const Value x = operand(result, 0), weight = operand(result, 1);
  const int64_t eps[] = {attrs(result)[0]};
  const ValueId of_x[] = {x.id, weight.id, grad.id}, of_weight[] = {x.id, grad.id};
  grads[0] = {&program, program.record(Op::kRmsNormGradX, of_x, eps)};
  grads[1] = {&program, program.record(Op::kRmsNormGradWeight, of_weight, eps)};
}

// ---- costs ----

// Maximum, subtraction, exponential, sum, and a last pass.
constexpr FlopRule kSoftmaxFlops = flops<5, 0>;
constexpr FlopRule kLayerNormFlops = flops<8, 0>;

constexpr FlopRule kRmsNormFlops = flops<4, 0>;

// XLA: square, sum, mean + eps, its inverse root, product.
constexpr XlaRates kRootMeanSquared{.flops = 3, .flops_of_row = 1, .transcendentals_of_row = 1};
// XLA: mean, difference, square, variance + eps, its inverse root, product.
constexpr XlaRates kNormalised{.flops = 5, .flops_of_row = 1, .transcendentals_of_row = 1};

constexpr Attribute kEps[] = {
    {"eps", Type::kF64, kAnyInt, kAlways, kNameAndValue, "eps={}", ""},
};

constexpr Attribute kRotaryAttributes[] = {
    {"inverse", Type::kInt, kFlag, kAlways, kNameAndValue, "", ""},
};
constexpr Attribute kTopKAttributes[] = {
    {"k", Type::kInt, kNatural, kAlways, kNameAndValue, "k={}", ""},
};

}  // namespace

constexpr OpDef kSoftmax = row_op(RowDef{
    .attributes = Attributes(),
    .infer = softmax_type,
    .gradient = softmax_gradient,
    .flops = kSoftmaxFlops,
    .xla_count = xla_count<kLogSumExp.plus(1), 0>,  // a division
    .batch = BatchRule::kGrows,
    .aten = "aten::softmax",
});

constexpr OpDef kLogSoftmax = row_op(RowDef{
    .attributes = Attributes(),
    .infer = softmax_type,
    .gradient = log_softmax_gradient,
    .flops = kSoftmaxFlops,
    .xla_count = xla_count<kLogSumExp.plus(1, 0, 1), 0>,  // a logarithm a row, a difference
    .batch = BatchRule::kGrows,
    .aten = "aten::log_softmax",
});

// (x (…, D), gamma (D), beta (D)).
constexpr OpDef kLayerNorm = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = layer_norm_type,
    .gradient = layer_norm_gradient,
    .flops = kLayerNormFlops,
    .xla_count = xla_count<kNormalised.plus(2), 0>,  // · gamma + beta
    .batch = BatchRule::kGrows,
    .aten = "aten::native_layer_norm",
});

// (x, gamma, grad).
constexpr OpDef kLayerNormGradX = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = layer_norm_grad_x_type,
    .gradient = kNotDifferentiable,
    .flops = kLayerNormFlops,
    .xla_count = xla_count<kNormalised.plus(8), 0>,  // two means of gamma · grad, and their differences
    .batch = BatchRule::kGrows,
    .aten = "aten::native_layer_norm_backward",
});

// (x, grad) -> (D).
constexpr OpDef kLayerNormGradGamma = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = layer_norm_grad_gamma_type,
    .gradient = kNotDifferentiable,
    .flops = kLayerNormFlops,
    // · grad, summed over the rows
    .xla_count =
        xla_count<XlaRates{.flops = 7, .flops_of_row = 1, .flops_of_result = -1, .transcendentals_of_row = 1}, 0>,
    .batch = BatchRule::kSumsSamples,
    .aten = "aten::native_layer_norm_backward",
});

// (x (…, D), weight (D)).
constexpr OpDef kRmsNorm = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = rms_norm_type,
    .gradient = rms_norm_gradient,
    .flops = kRmsNormFlops,
    .xla_count = xla_count<kRootMeanSquared.plus(1), 0>,  // · weight
    .batch = BatchRule::kGrows,
    .aten = "aten::rms_norm",
});

// (x, weight, grad).
constexpr OpDef kRmsNormGradX = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = layer_norm_grad_x_type,
    .gradient = kNotDifferentiable,
    .flops = kLayerNormFlops,
    .xla_count = xla_count<kRootMeanSquared.plus(6), 0>,  // the mean of weight · grad · x, and the difference
    .batch = BatchRule::kGrows,
    .aten = "aten::rms_norm_backward",
});

// (x, grad) -> (D).
constexpr OpDef kRmsNormGradWeight = row_op(RowDef{
    .attributes = Attributes(kEps),
    .infer = layer_norm_grad_gamma_type,
    .gradient = kNotDifferentiable,
    .flops = kRmsNormFlops,
    .xla_count =
        xla_count<XlaRates{.flops = 5, .flops_of_row = 1, .flops_of_result = -1, .transcendentals_of_row = 1}, 0>,
    .batch = BatchRule::kSumsSamples,
    .aten = "aten::rms_norm_backward",
});

// (positions (…) i64, frequencies (D / 2)) -> (…, D): cos, then sin.
constexpr OpDef kRotaryTable = row_op(RowDef{
    .attributes = Attributes(),
    .infer = rotary_table_type,
    .gradient = kNoGradient,
    .flops = flops<2>,
    .xla_count = xla_count<XlaRates{.flops = 1, .transcendentals = 1}>,
    .batch = BatchRule::kGrows,
    .aten = "aten::rotary_table",
});

// (x (B, H, T, D), table).
constexpr OpDef kRotary = row_op(RowDef{
    .attributes = Attributes(kRotaryAttributes),
    .infer = rotary_type,
    .gradient = rotary_gradient,
    .flops = flops<3>,
    .xla_count = xla_count<XlaRates{.flops = 3}>,
    .batch = BatchRule::kGrows,
    .aten = "aten::rotary",
});

// x (…, N) -> (…, k) i64.
constexpr OpDef kTopK = row_op(RowDef{
    .attributes = Attributes(kTopKAttributes),
    .infer = top_k_type,
    .gradient = kNoGradient,
    .flops = flops<1, 0>,
    .xla_count = xla_count<kOneFlop, 0>,  // at least a comparison per element
    .batch = BatchRule::kGrows,
    .aten = "aten::topk",
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {
namespace {

// Swaps `axis` with the last one around a row op.
Value over_last(Op op, Value x, int64_t axis) {
  check_input(x.shape().rank() > 0, x, "{}: expected at least one axis, got {}", name_of(op), x.type());
  const int normal = normal_axis(name_of(op), x, axis);
  if (normal == x.shape().rank() - 1) return record(op, {x});
  return transpose(record(op, {transpose(x, normal, -1)}), normal, -1);
}

}  // namespace

Value softmax(Value x, int64_t axis) {
  return over_last(Op::kSoftmax, x, axis);
}
Value log_softmax(Value x, int64_t axis) {
  return over_last(Op::kLogSoftmax, x, axis);
}

Value layer_norm(Value x, Value gamma, Value beta, double eps) {
  const int64_t attrs[] = {pack_f64(eps)};
  return record(Op::kLayerNorm, {x, gamma, beta}, attrs);
}

Value rms_norm(Value x, Value weight, double eps) {
  const int64_t attrs[] = {pack_f64(eps)};
  return record(Op::kRmsNorm, {x, weight}, attrs);
}

Value rotary_table(Value positions, Value frequencies) {
  return record(Op::kRotaryTable, {positions, frequencies});
}

Value rotary(Value x, Value table) {
  const int64_t forward[] = {0};
  return record(Op::kRotary, {x, table}, forward);
}

Value top_k(Value x, int64_t k) {
  const int64_t attrs[] = {k};
  return record(Op::kTopK, {x}, attrs);
}

Value swiglu(Value gate, Value x) {
  return mul(silu(gate), x);
}
Value geglu(Value gate, Value x) {
  return mul(gelu(gate), x);
}

}  // namespace runner::backends::ops
