#include "backends/ir/derivatives.h"

#include <cmath>
#include <numbers>

#include "backends/ir/ops.h"

namespace runner::backends::derivatives {
namespace {

Value operand(Value result, size_t i) {
  return {result.program, result.program->operands(result.id)[i]};
}
std::span<const int64_t> attrs(Value result) {
  return result.program->attrs(result.id);
}
Value zeros_like(Value x) {
  return ops::full_like(x, 0.0);
}

// The result of a reduction over `axes` of `x`, spread over x again.
Value spread(Value reduced, const Shape& shape, std::span<const int64_t> axes) {
  Shape kept = shape;
  for (const int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return ops::expand(ops::reshape(reduced, kept), shape);
}

}  // namespace

void neg(Value, Value grad, Grads grads) {
  grads[0] = ops::neg(grad);
}
void abs(Value result, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, ops::sign(operand(result, 0)));
}
void exp(Value result, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, result);
}
void log(Value result, Value grad, Grads grads) {
  grads[0] = ops::div(grad, operand(result, 0));
}
void log1p(Value result, Value grad, Grads grads) {
  grads[0] = ops::div(grad, ops::add(operand(result, 0), 1.0));
}
void sqrt(Value result, Value grad, Grads grads) {
  grads[0] = ops::div(grad, ops::mul(result, 2.0));
}

// y = x^(−1/2): dy/dx = −y³/2.
void rsqrt(Value result, Value grad, Grads grads) {
  const Value cube = ops::mul(ops::mul(result, result), result);
  grads[0] = ops::mul(grad, ops::mul(cube, -0.5));
}

void tanh(Value result, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, ops::sub(1.0, ops::mul(result, result)));
}

void sigmoid(Value result, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, ops::mul(result, ops::sub(1.0, result)));
}

// d erf(x)/dx = 2/√π · exp(−x²).
void erf(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const Value bell = ops::exp(ops::neg(ops::mul(x, x)));
  grads[0] = ops::mul(grad, ops::mul(bell, 2.0 * std::numbers::inv_sqrtpi));
}

void relu(Value result, Value grad, Grads grads) {
  grads[0] = ops::where(ops::gt(result, 0.0), grad, zeros_like(grad));
}

// d/dx x Φ(x) = Φ(x) + x φ(x), φ the normal density.
void gelu(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const Value cdf = ops::mul(ops::add(ops::erf(ops::mul(x, std::numbers::sqrt2 / 2)), 1.0), 0.5);
  const double normal = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Value pdf = ops::mul(ops::exp(ops::mul(ops::mul(x, x), -0.5)), normal);
  grads[0] = ops::mul(grad, ops::add(cdf, ops::mul(x, pdf)));
}

// With u = √(2/π) (x + 0.044715 x³), t = tanh u: (1 + t)/2 + x/2 (1 − t²) √(2/π) (1 + 3·0.044715 x²).
void gelu_tanh(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const double root = std::sqrt(2 * std::numbers::inv_pi);
  const Value x2 = ops::mul(x, x);
  const Value u = ops::mul(ops::mul(x, ops::add(ops::mul(x2, 0.044715), 1.0)), root);
  const Value t = ops::tanh(u);
  const Value du = ops::mul(ops::add(ops::mul(x2, 3 * 0.044715), 1.0), root);
  const Value slope = ops::mul(ops::mul(x, 0.5), ops::mul(ops::sub(1.0, ops::mul(t, t)), du));
  grads[0] = ops::mul(grad, ops::add(ops::mul(ops::add(t, 1.0), 0.5), slope));
}

// d/dx x σ(x) = σ (1 + x (1 − σ)).
void silu(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const Value s = ops::sigmoid(x);
  grads[0] = ops::mul(grad, ops::mul(s, ops::add(ops::mul(x, ops::sub(1.0, s)), 1.0)));
}

void cast(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  if (is_float(x.dtype()) && is_float(result.dtype())) grads[0] = ops::cast(grad, x.dtype());
}

void add(Value, Value grad, Grads grads) {
  grads[0] = grads[1] = grad;
}

void sub(Value, Value grad, Grads grads) {
  grads[0] = grad;
  grads[1] = ops::neg(grad);
}

void mul(Value result, Value grad, Grads grads) {
  grads[0] = ops::mul(grad, operand(result, 1));
  grads[1] = ops::mul(grad, operand(result, 0));
}

void div(Value result, Value grad, Grads grads) {
  const Value b = operand(result, 1);
  grads[0] = ops::div(grad, b);
  grads[1] = ops::neg(ops::div(ops::mul(grad, result), b));
}

// d/dx x^y = y x^(y−1), zero at y = 0; d/dy x^y = x^y log x, zero at x = 0 with y ≥ 0 (as torch.pow).
void pow(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0), y = operand(result, 1);
  const Value zero = zeros_like(grad);
  const Value power = ops::mul(y, ops::pow(x, ops::sub(y, 1.0)));
  grads[0] = ops::where(ops::eq(y, zero), zero, ops::mul(grad, power));
  const Value flat = ops::logical_and(ops::eq(x, zero), ops::ge(y, zero));
  const Value safe = ops::where(flat, ops::full_like(x, 1.0), x);
  grads[1] = ops::where(flat, zero, ops::mul(grad, ops::mul(result, ops::log(safe))));
}

namespace {

void extremum(Value result, Value grad, Grads grads, Op wins) {
  const Value a = operand(result, 0), b = operand(result, 1);
  const Value zero = zeros_like(grad);
  const Value half = ops::mul(grad, 0.5);
  const Value tie = ops::eq(a, b);
  grads[0] = ops::where(tie, half, ops::where(ops::binary(wins, a, b), grad, zero));
  grads[1] = ops::where(tie, half, ops::where(ops::binary(wins, b, a), grad, zero));
}

}  // namespace

void min(Value result, Value grad, Grads grads) {
  extremum(result, grad, grads, Op::kLt);
}
void max(Value result, Value grad, Grads grads) {
  extremum(result, grad, grads, Op::kGt);
}

void where(Value result, Value grad, Grads grads) {
  const Value condition = operand(result, 0);
  const Value zero = zeros_like(grad);
  grads[1] = ops::where(condition, grad, zero);
  grads[2] = ops::where(condition, zero, grad);
}

void sum(Value result, Value grad, Grads grads) {
  grads[0] = spread(grad, operand(result, 0).shape(), attrs(result));
}

void reduce_extremum(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const Value hit = ops::cast(ops::eq(x, spread(result, x.shape(), attrs(result))), x.dtype());
  const Value share = ops::div(grad, ops::sum(hit, attrs(result)));
  grads[0] = ops::mul(hit, spread(share, x.shape(), attrs(result)));
}

void reshape(Value result, Value grad, Grads grads) {
  grads[0] = ops::reshape(grad, operand(result, 0).shape());
}

void permute(Value result, Value grad, Grads grads) {
  const std::span<const int64_t> axes = attrs(result);
  std::array<int64_t, Shape::kMaxRank> inverse{};
  for (size_t i = 0; i < axes.size(); ++i) inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  grads[0] = ops::permute(grad, {inverse.data(), axes.size()});
}

void expand(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape(), to = result.shape();
  const int added = to.rank() - from.rank();
  std::vector<int64_t> axes;
  for (int axis = 0; axis < to.rank(); ++axis)
    if (axis < added || (from[axis - added] == 1 && to[axis] != 1)) axes.push_back(axis);
  grads[0] = axes.empty() ? grad : ops::reshape(ops::sum(grad, axes), from);
}

// A step of s is undone by padding each element to s and cutting or padding to the length.
void slice(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape();
  const std::vector<int64_t> cut(attrs(result).begin(), attrs(result).end());
  Value g = grad;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis) * 3;
    const int64_t start = cut[at], step = cut[at + 2];
    if (step > 1) {
      const Shape shape = g.shape();
      std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
      dims.insert(dims.begin() + axis + 1, 1);
      g = ops::pad(ops::reshape(g, Shape(dims)), axis + 1, 0, step - 1);
      dims.erase(dims.begin() + axis + 1);
      dims[static_cast<size_t>(axis)] *= step;
      g = ops::reshape(g, Shape(dims));
    }
    const int64_t room = from[axis] - start;
    if (g.shape()[axis] > room) g = ops::slice(g, axis, 0, room);
    g = ops::pad(g, axis, start, room - g.shape()[axis]);
  }
  grads[0] = g;
}

void pad(Value result, Value grad, Grads grads) {
  const Shape from = operand(result, 0).shape();
  const std::vector<int64_t> amounts(attrs(result).begin(), attrs(result).end());
  Value g = grad;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const int64_t before = amounts[static_cast<size_t>(axis) * 2];
    g = ops::slice(g, axis, before, before + from[axis]);
  }
  grads[0] = g;
}

void concat(Value result, Value grad, Grads grads) {
  const int axis = result.shape().axis(attrs(result)[0], "concat");
  int64_t start = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    const int64_t size = operand(result, i).shape()[axis];
    grads[i] = ops::slice(grad, axis, start, start + size);
    start += size;
  }
}

void gather(Value result, Value grad, Grads grads) {
  grads[0] = ops::scatter_add(zeros_like(operand(result, 0)), attrs(result)[0], operand(result, 1), grad);
}

void scatter_add(Value result, Value grad, Grads grads) {
  grads[0] = grad;
  grads[2] = ops::gather(grad, attrs(result)[0], operand(result, 1));
}

void embedding(Value result, Value grad, Grads grads) {
  const Value table = operand(result, 0);
  const int64_t rows[] = {table.shape()[0]};
  const ValueId operands[] = {operand(result, 1).id, grad.id};
  grads[0] = {result.program, result.program->record(Op::kEmbeddingGrad, operands, rows)};
}

// A' B' [+ C] with A' = A or Aᵀ, B' = B or Bᵀ: dA' = G B'ᵀ, dB' = A'ᵀ G, dC = G.
void matmul(Value result, Value grad, Grads grads) {
  const Value a = operand(result, 0), b = operand(result, 1);
  const bool ta = attrs(result)[0] != 0, tb = attrs(result)[1] != 0;
  if (grads.size() > 2) grads[2] = grad;
  grad = ops::cast(grad, a.dtype());  // of a wide product
  grads[0] = ta ? ops::matmul(b, grad, tb, true) : ops::matmul(grad, b, false, !tb);
  grads[1] = tb ? ops::matmul(grad, a, true, ta) : ops::matmul(a, grad, !ta, false);
}

void softmax(Value result, Value grad, Grads grads) {
  const int64_t last[] = {-1};
  const Value dot = ops::sum(ops::mul(grad, result), last, true);
  grads[0] = ops::mul(result, ops::sub(grad, dot));
}

void log_softmax(Value result, Value grad, Grads grads) {
  const int64_t last[] = {-1};
  grads[0] = ops::sub(grad, ops::mul(ops::exp(result), ops::sum(grad, last, true)));
}

void cross_entropy(Value result, Value grad, Grads grads) {
  std::vector<ValueId> operands = {operand(result, 0).id, operand(result, 1).id, grad.id};
  if (grads.size() > 2) operands.push_back(operand(result, 2).id);
  const std::vector<int64_t> options(attrs(result).begin(), attrs(result).end());
  grads[0] = {result.program, result.program->record(Op::kCrossEntropyGrad, operands, options)};
}

void layer_norm(Value result, Value grad, Grads grads) {
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

// Each replica has added to the results of all.
void all_reduce(Value result, Value grad, Grads grads) {
  const auto reduction = static_cast<Reduction>(attrs(result)[0]);
  if (reduction == Reduction::kSum) grads[0] = ops::all_reduce(grad, reduction, static_cast<Subject>(attrs(result)[1]));
}

}  // namespace runner::backends::derivatives
