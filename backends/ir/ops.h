// The vocabulary in which models, losses, derivatives and optimizers are written: functions that record nodes.
//
// Operands broadcast as in NumPy (an explicit expand is recorded) and must have one dtype; a double adopts the dtype
// and shape of the other operand.  All throw Error(kRun) with the op's name and both types where they do not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/dist/collectives.h"
#include "backends/ir/program.h"

namespace runner::backends::ops {

// By op, for those of one operand, of two, and for reductions (below).
Value unary(Op op, Value x);
Value binary(Op op, Value a, Value b);
Value reduce(Op op, Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);

inline Value neg(Value x) {
  return unary(Op::kNeg, x);
}
inline Value abs(Value x) {
  return unary(Op::kAbs, x);
}
inline Value sign(Value x) {
  return unary(Op::kSign, x);
}
inline Value exp(Value x) {
  return unary(Op::kExp, x);
}
inline Value log(Value x) {
  return unary(Op::kLog, x);
}
inline Value log1p(Value x) {
  return unary(Op::kLog1p, x);
}
inline Value sqrt(Value x) {
  return unary(Op::kSqrt, x);
}
inline Value rsqrt(Value x) {
  return unary(Op::kRsqrt, x);
}
inline Value tanh(Value x) {
  return unary(Op::kTanh, x);
}
inline Value sigmoid(Value x) {
  return unary(Op::kSigmoid, x);
}
inline Value erf(Value x) {
  return unary(Op::kErf, x);
}
inline Value relu(Value x) {
  return unary(Op::kRelu, x);
}
inline Value gelu(Value x) {
  return unary(Op::kGelu, x);
}
inline Value gelu_tanh(Value x) {
  return unary(Op::kGeluTanh, x);
}
inline Value silu(Value x) {
  return unary(Op::kSilu, x);
}
inline Value is_finite(Value x) {
  return unary(Op::kIsFinite, x);
}
inline Value logical_not(Value x) {
  return unary(Op::kNot, x);
}
Value cast(Value x, DType dtype);  // x itself when it has the dtype
// x as a number of the engine's own accounts: a device that has another type for f32 computes what follows in f32 all
// the same.  Recorded as a cast to x's dtype, which passes drop.
Value on_host(Value x);

inline Value add(Value a, Value b) {
  return binary(Op::kAdd, a, b);
}
inline Value sub(Value a, Value b) {
  return binary(Op::kSub, a, b);
}
inline Value mul(Value a, Value b) {
  return binary(Op::kMul, a, b);
}
inline Value div(Value a, Value b) {
  return binary(Op::kDiv, a, b);
}
inline Value pow(Value a, Value b) {
  return binary(Op::kPow, a, b);
}
inline Value minimum(Value a, Value b) {
  return binary(Op::kMin, a, b);
}
inline Value maximum(Value a, Value b) {
  return binary(Op::kMax, a, b);
}
inline Value eq(Value a, Value b) {
  return binary(Op::kEq, a, b);
}
inline Value ne(Value a, Value b) {
  return binary(Op::kNe, a, b);
}
inline Value lt(Value a, Value b) {
  return binary(Op::kLt, a, b);
}
inline Value le(Value a, Value b) {
  return binary(Op::kLe, a, b);
}
inline Value gt(Value a, Value b) {
  return binary(Op::kGt, a, b);
}
inline Value ge(Value a, Value b) {
  return binary(Op::kGe, a, b);
}
inline Value logical_and(Value a, Value b) {
  return binary(Op::kAnd, a, b);
}
inline Value logical_or(Value a, Value b) {
  return binary(Op::kOr, a, b);
}

// A constant of the dtype and shape of `like`.
Value full_like(Value like, double value);
// (N) f32 of N ≥ 1 numbers: one constant for each and their concatenation, so meant for few.
Value vector(Program& program, std::span<const double> numbers);
Value arange(Program& program, int64_t size);  // (size) i64: 0, 1, …
inline Value add(Value a, double b) {
  return add(a, full_like(a, b));
}
inline Value sub(Value a, double b) {
  return sub(a, full_like(a, b));
}
inline Value mul(Value a, double b) {
  return mul(a, full_like(a, b));
}
inline Value div(Value a, double b) {
  return div(a, full_like(a, b));
}
inline Value pow(Value a, double b) {
  return pow(a, full_like(a, b));
}
inline Value gt(Value a, double b) {
  return gt(a, full_like(a, b));
}
inline Value ge(Value a, double b) {
  return ge(a, full_like(a, b));
}
inline Value lt(Value a, double b) {
  return lt(a, full_like(a, b));
}
inline Value sub(double a, Value b) {
  return sub(full_like(b, a), b);
}
inline Value div(double a, Value b) {
  return div(full_like(b, a), b);
}

Value softplus(Value x);     // log(1 + eˣ)
Value log_sigmoid(Value x);  // −log(1 + e⁻ˣ)
Value leaky_relu(Value x, Value slope);
Value elu(Value x, Value alpha);  // α (eˣ − 1) below 0
inline Value leaky_relu(Value x, double slope) {
  return leaky_relu(x, full_like(x, slope));
}
inline Value elu(Value x, double alpha) {
  return elu(x, full_like(x, alpha));
}

Value where(Value condition, Value x, Value y);
Value clamp(Value x, Value low, Value high);  // NaN stays NaN; an unset bound is none
Value clamp(Value x, std::optional<double> low, std::optional<double> high);

// Reductions over `axes` (negative from the end; empty: all).  keep_dims keeps them with size 1.
Value sum(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value mean(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value reduce_max(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value reduce_min(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value norm(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);  // √ of the sum of squares
// Of n elements with n − 1 in the denominator, as torch.var; NaN of one.
Value variance(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value logsumexp(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value argmax(Value x, int64_t axis, bool keep_dims = false);

Value reshape(Value x, const Shape& shape);
Value flatten(Value x);                  // to one dimension
Value unsqueeze(Value x, int64_t axis);  // with a new axis of size 1 at 0…rank
Value permute(Value x, std::span<const int64_t> axes);
Value transpose(Value x, int64_t a, int64_t b);
Value detach(Value x);  // x, through which no gradient flows
Value expand(Value x, const Shape& shape);
// [start, stop) of one axis by step; negative start and stop count from the end.
Value slice(Value x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
Value pad(Value x, int64_t axis, int64_t before, int64_t after);
Value concat(std::span<const Value> parts, int64_t axis);
Value stack(std::span<const Value> parts, int64_t axis);  // along a new axis at 0…rank; all of one shape
// x: (…, M, N), 0 above (below) the diagonal, or that many diagonals above it, as torch.tril (torch.triu).
Value tril(Value x, int64_t diagonal = 0);
Value triu(Value x, int64_t diagonal = 0);

Value gather(Value x, int64_t axis, Value index);
Value scatter_add(Value x, int64_t axis, Value index, Value src);
Value one_hot(Value index, int64_t classes);
Value embedding(Value table, Value ids);

// (…, M, K) × (…, K, N); a 2-D B with an A of higher rank is applied to A's rows.
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
// c + a b, in one kernel; c: as the product, f32 or f64.
Value add_matmul(Value c, Value a, Value b, bool transpose_a = false, bool transpose_b = false);

Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);
// x: (…, D); gamma, beta: (D).  Biased variance, as torch.nn.LayerNorm.
Value layer_norm(Value x, Value gamma, Value beta, double eps = 1e-5);
// 0 or 1/(1−p) for each element of `shape`, f32; axis 0 is the sample axis.  Keyed by {seed, epoch}, the sample's id,
// the layer and the element's position in the sample, hence the same for any batching.
Value dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p);

// Random numbers of a shape, f32: uniform on [0, 1) in steps of 2⁻²⁴, or normal with mean 0 and variance 1.  A pure
// function of the key {seed, draw}, the stream and the element's position (docs/numerics.md, "Random numbers"), without
// a derivative.  Calls of one Program take streams 0, 1, … in [0, 2³²); two with equal key, stream and shape give equal
// numbers.  The key is an input of kind kBatch, so that a new draw at each execution finds the same plan.
Value random_uniform(Value key, const Shape& shape, int64_t stream);
Value random_normal(Value key, const Shape& shape, int64_t stream);

// Per-sample or per-element losses; reduce with sum or mean.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Value class_weights;  // (C), optional
};
Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options = {});  // (N, C), (N) -> (N)
// Losses (N) where labels are smoothed by s: kept · those of the labels + each · the sum of those of all classes, with
// kept = 1 − s and each = s / C, () of the logits' dtype.  So s may be an input; options.label_smoothing is a part of
// the Program.
Value smoothed_cross_entropy(Value logits, Value labels, CrossEntropyOptions options, Value kept, Value each);
// labels: (N) i64 -> (N) f32: what each sample's loss counts in the mean that torch takes of cross_entropy: its label's
// class weight, or 1; 0 for ignore_index.
Value label_weights(Value labels, const CrossEntropyOptions& options);
Value mse(Value prediction, Value target);
Value l1(Value prediction, Value target);
Value huber(Value prediction, Value target, double delta = 1.0);
Value bce_with_logits(Value logits, Value target);

// The fold over all replicas, each of which records it; x: f32, f64, i32 or i64.
Value all_reduce(Value x, Reduction reduction, Subject subject);

}  // namespace runner::backends::ops
