// Functions of one float tensor, element by element.
#include <cmath>
#include <numbers>

#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {

// ---- elementary functions ------------------------------------------------------------------------------------------

constexpr OpDef kExp = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::mul(grad, y); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::exp", hlo_instruction("exponential")),
});

constexpr OpDef kLog = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::div(grad, operand(y, 0)); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::log", hlo_instruction("log")),
});

constexpr OpDef kLog1p = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::div(grad, ops::add(operand(y, 0), 1.0)); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::log1p", hlo_instruction("log-plus-one")),
});

constexpr OpDef kSqrt = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::div(grad, ops::mul(y, 2.0)); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::sqrt", hlo_instruction("sqrt")),
});

// y = x^(−1/2): dy/dx = −y³/2.
constexpr OpDef kRsqrt = float_function(FunctionDef{
    .gradient =
        [](Value y, Value grad, Grads grads) {
          const Value cube = ops::mul(ops::mul(y, y), y);
          grads[0] = ops::mul(grad, ops::mul(cube, -0.5));
        },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::rsqrt", hlo_instruction("rsqrt")),
});

constexpr OpDef kTanh = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::mul(grad, ops::sub(1.0, ops::mul(y, y))); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::tanh", hlo_instruction("tanh")),
});

constexpr OpDef kSigmoid = float_function(FunctionDef{
    .gradient = [](Value y, Value grad, Grads grads) { grads[0] = ops::mul(grad, ops::mul(y, ops::sub(1.0, y))); },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::sigmoid", hlo_instruction("logistic")),
});

// d erf(x)/dx = 2/√π · exp(−x²).
constexpr OpDef kErf = float_function(FunctionDef{
    .gradient =
        [](Value y, Value grad, Grads grads) {
          const Value x = operand(y, 0);
          const Value bell = ops::exp(ops::neg(ops::mul(x, x)));
          grads[0] = ops::mul(grad, ops::mul(bell, 2.0 * std::numbers::inv_sqrtpi));
        },
    .xla_count = xla_count<kOneTranscendental>,
    .xla = xla_names("aten::erf", hlo_instruction("erf")),
});

// ---- activations ---------------------------------------------------------------------------------------------------

namespace {

// The slopes are ops, which compute in f32 and round once.
template <Op slope>
void gradient_by_slope(Value y, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, ops::unary(slope, operand(y, 0)));
}

// Where the second derivatives vanish, x is limited, so that no square of it overflows.
Value limited(Value x, double bound) {
  return ops::clamp(x, -bound, bound);
}

// d/dx (Φ(x) + x φ(x)) = φ(x) (2 − x²), φ the normal density.
void gelu_slope_gradient(Value y, Value grad, Grads grads) {
  const Value x = limited(operand(y, 0), 20), x2 = ops::mul(x, x);
  const double normal = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Value density = ops::mul(ops::exp(ops::mul(x2, -0.5)), normal);
  grads[0] = ops::mul(grad, ops::mul(density, ops::sub(2.0, x2)));
}

// With s = σ(u(x)): d²/dx² x s = s (1 − s) (2u' + x ((1 − 2s) u'² + u'')).
Value curvature(Value x, Value u, Value du, Value du2) {
  const Value s = ops::sigmoid(u), rest = ops::sigmoid(ops::neg(u));
  const Value inner = ops::add(ops::mul(ops::sub(rest, s), ops::mul(du, du)), du2);
  return ops::mul(ops::mul(s, rest), ops::add(ops::mul(du, 2.0), ops::mul(x, inner)));
}

// u = √(8/π) (x + 0.044715 x³).
void gelu_tanh_slope_gradient(Value y, Value grad, Grads grads) {
  const double root = std::sqrt(8 * std::numbers::inv_pi), cubic = 0.044715;
  const Value x = limited(operand(y, 0), 10), x2 = ops::mul(x, x);
  const Value u = ops::mul(ops::mul(x, ops::add(ops::mul(x2, cubic), 1.0)), root);
  const Value du = ops::mul(ops::add(ops::mul(x2, 3 * cubic), 1.0), root);
  grads[0] = ops::mul(grad, curvature(x, u, du, ops::mul(x, 6 * cubic * root)));
}

void silu_slope_gradient(Value y, Value grad, Grads grads) {
  const Value x = limited(operand(y, 0), y.dtype() == DType::kF64 ? 800 : 120);
  grads[0] = ops::mul(grad, curvature(x, x, ops::full_like(x, 1.0), zeros_like(x)));
}

}  // namespace

// max(x, 0).
constexpr OpDef kRelu = float_function(FunctionDef{
    .gradient = [](Value y, Value grad,
                   Grads grads) { grads[0] = ops::where(ops::gt(y, 0.0), grad, zeros_like(grad)); },
    .xla_count = xla_count<kOneFlop>,
    .xla = xla_names("aten::relu", hlo_form(HloForm::kMaximumWithZero, "maximum")),
});

// x · Φ(x), Φ the normal distribution function: 0.5 · x · (1 + erf(x · √½)).
constexpr OpDef kGelu = float_function(FunctionDef{
    .gradient = gradient_by_slope<Op::kGeluSlope>,
    .xla_count = xla_count<kOneTranscendental.plus(4)>,
    .xla = xla_names("aten::gelu", kCustomCall),
});

// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x · x · x))).
constexpr OpDef kGeluTanh = float_function(FunctionDef{
    .gradient = gradient_by_slope<Op::kGeluTanhSlope>,
    .xla_count = xla_count<kOneTranscendental.plus(8)>,
    .xla = xla_names("aten::gelu", kCustomCall),
});

// x · σ(x).
constexpr OpDef kSilu = float_function(FunctionDef{
    .gradient = gradient_by_slope<Op::kSiluSlope>,
    .xla_count = xla_count<kOneTranscendental.plus(1)>,
    .xla = xla_names("aten::silu", kCustomCall),
});

// Φ(x) + x φ(x), φ the normal density.
constexpr OpDef kGeluSlope = float_function(FunctionDef{
    .gradient = gelu_slope_gradient,
    .xla_count = xla_count<XlaRates{.flops = 8, .transcendentals = 2}>,
    .xla = xla_names("aten::gelu_backward", kCustomCall),
});

// With s = σ(u), u = √(8/π) (x + 0.044715 x³): s + x s (1 − s) u'.
constexpr OpDef kGeluTanhSlope = float_function(FunctionDef{
    .gradient = gelu_tanh_slope_gradient,
    .xla_count = xla_count<kOneTranscendental.plus(14)>,
    .xla = xla_names("aten::gelu_backward", kCustomCall),
});

// σ(x) (1 + x (1 − σ(x))).
constexpr OpDef kSiluSlope = float_function(FunctionDef{
    .gradient = silu_slope_gradient,
    .xla_count = xla_count<kOneTranscendental.plus(4)>,
    .xla = xla_names("aten::silu_backward", kCustomCall),
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value softplus_tail(Value x) {
  return log1p(exp(neg(abs(x))));
}

// max(x, 0) + log(1 + exp(−|x|)). At x = 0 the maximum has slope ½ and |x| slope 0: the sum's is σ(0).
Value softplus(Value x) {
  return add(maximum(x, full_like(x, 0.0)), softplus_tail(x));
}

Value log_sigmoid(Value x) {
  return neg(softplus(neg(x)));
}

Value leaky_relu(Value x, Value slope) {
  return where(gt(x, 0.0), x, mul(x, slope));
}

// The exponential of min(x, 0): above 0 it could overflow, and its derivative would be NaN.
Value elu(Value x, Value alpha) {
  const Value below = minimum(x, full_like(x, 0.0));
  return where(gt(x, 0.0), x, mul(sub(exp(below), 1.0), alpha));
}

}  // namespace runner::backends::ops
