// The functions with which models, losses, gradients and optimizers are written. Each records nodes of a Program.
//
// Operands broadcast as in NumPy (an expand is recorded) and must have the same dtype; a double takes the dtype and
// shape of the other operand. All throw Error(kRun) with the op's name and the operand types if they do not match.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/ir/program.h"
#include "backends/ir/windows.h"

namespace runner::backends::ops {

// By op: element-wise ops of one and of two operands, and reductions (see sum()).
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
Value cast(Value x, DType dtype);  // returns x if it has the dtype
// Marks x as engine bookkeeping: a device that computes f32 in another type computes dependent nodes in f32. Recorded
// as a cast to the dtype of x, which the fold pass removes.
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

// Returns a constant of the dtype and shape of `like`.
Value full_like(Value like, double value);
// Returns N ≥ 1 numbers as (N) f32: the concatenation of one constant each, so N should be small.
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
Value clamp(Value x, Value low, Value high);  // NaN stays NaN; an unset bound does not apply
Value clamp(Value x, std::optional<double> low, std::optional<double> high);

// Reductions over `axes` (negative axes count from the end; empty: all axes). keep_dims keeps them with size 1.
Value sum(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value mean(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value reduce_max(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value reduce_min(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value norm(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);  // L2 norm
// Divides by n − 1 for n elements, as torch.var; NaN for n = 1.
Value variance(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value logsumexp(Value x, std::span<const int64_t> axes = {}, bool keep_dims = false);
Value argmax(Value x, int64_t axis, bool keep_dims = false);

Value reshape(Value x, const Shape& shape);
Value flatten(Value x);                  // to one dimension
Value unsqueeze(Value x, int64_t axis);  // with a new axis of size 1 at 0…rank
Value permute(Value x, std::span<const int64_t> axes);
Value transpose(Value x, int64_t a, int64_t b);
Value detach(Value x);  // x without a gradient
// x, for nodes that are computed after `after`: no pass merges them with equal nodes that read x itself.
Value barrier(Value x, Value after);
Value expand(Value x, const Shape& shape);
// [start, stop) of one axis with this step; negative start and stop count from the end.
Value slice(Value x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
Value pad(Value x, int64_t axis, int64_t before, int64_t after);
Value concat(std::span<const Value> parts, int64_t axis);
Value stack(std::span<const Value> parts, int64_t axis);  // along a new axis at 0…rank; all of one shape
// x: (…, M, N) with zeros above (below) a diagonal, counted upwards from the main one; as torch.tril (torch.triu).
Value tril(Value x, int64_t diagonal = 0);
Value triu(Value x, int64_t diagonal = 0);

Value gather(Value x, int64_t axis, Value index);
Value scatter_add(Value x, int64_t axis, Value index, Value src);
// Replaces x[…, index[i], …] along an axis by source[…, i, …]. index: (N); source: like x, with N along the axis.
Value index_copy(Value x, int64_t axis, Value index, Value source);
Value one_hot(Value index, int64_t classes);
Value embedding(Value table, Value ids);

// (…, M, K) × (…, K, N). A 2-D b with an a of higher rank multiplies the rows of a.
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
// c + a b in one kernel. c: the type of the product, f32 or f64.
Value add_matmul(Value c, Value a, Value b, bool transpose_a = false, bool transpose_b = false);

// Convolution, a cross-correlation as in PyTorch. x: (B, C, S…) with one or two spatial axes; w: (O, C / groups, K…);
// a window for each spatial axis, whose size is that of w. Returns (B, O, windows…).
Value conv(Value x, Value w, std::span<const Window> windows, int64_t groups = 1);
// The transpose of conv(), its gradient with respect to x. x: (B, O, windows…); w: (O, C / groups, K…); sizes: of the
// spatial axes of the result, on which the windows fit exactly as many times as x has elements. Returns (B, C, sizes…).
Value conv_transpose(Value x, Value w, std::span<const Window> windows, std::span<const int64_t> sizes,
                     int64_t groups = 1);
// The largest element, or the mean, of each window. x: (B, C, S…) with a Pooling for each spatial axis. Padding never
// is the largest; count_padding: whether it counts in the mean, as 0.
Value max_pool(Value x, std::span<const Pooling> pools);
Value avg_pool(Value x, std::span<const Pooling> pools, bool count_padding = true);
// The same to a given size of each spatial axis: element i of `size` covers elements i n / size to (i + 1) n / size of
// n, rounded outwards, as PyTorch's adaptive pooling. A maximum that occurs several times shares its gradient unless
// the sizes divide those of x.
Value adaptive_avg_pool(Value x, std::span<const int64_t> sizes);
Value adaptive_max_pool(Value x, std::span<const int64_t> sizes);
struct UpsampleOptions {
  bool linear = false;         // else the nearest element: element i of `size` is element ⌊i n / size⌋ of n, in f32
  bool align_corners = false;  // of linear: the first and last elements stay; else elements are areas
  // PyTorch's scale_factor for each axis, which places the elements; empty: size / n. The two differ if n · factor is
  // no whole number. align_corners does not use it.
  std::vector<double> factors = {};
};
// x: (B, C, S…) floats -> (B, C, sizes…), as torch.nn.functional.interpolate.
Value upsample(Value x, std::span<const int64_t> sizes, const UpsampleOptions& options = {});

// Sums over all axes of (B, C, …) but the second, as (C) f32, or f64 for f64: of a, of (x − mean)², of a (x − mean).
Value channel_sum(Value a);
Value channel_sum_of_squares(Value x, Value mean);
Value channel_sum_of_products(Value a, Value x, Value mean);
// (x − mean) · scale + bias for x (B, C, …); the others are (C) of the same float dtype. bias: optional.
Value batch_norm(Value x, Value mean, Value scale, Value bias = {});

Value softmax(Value x, int64_t axis = -1);
Value log_softmax(Value x, int64_t axis = -1);
// x: (…, D); gamma, beta: (D). Uses the biased variance, as torch.nn.LayerNorm.
Value layer_norm(Value x, Value gamma, Value beta, double eps = 1e-5);
// x: (…, D); weight: (D). x / √(mean of x² + eps) · weight, as torch.nn.RMSNorm.
Value rms_norm(Value x, Value weight, double eps);
// Cosines and sines of rotary embeddings. positions: (T) or (B, T) i64; frequencies: (D / 2) floats. Returns (…,
// D): cos a, then sin a, for the angles a = position · frequency, rounded as the frequencies are.
Value rotary_table(Value positions, Value frequencies);
// Rotary embedding: rotates the pairs of elements i and i + D / 2 of each row, as the Hub's models do. x: (B, H, T, D);
// table: (T, D) or (B, T, D) of rotary_table(), f64 exactly if x is.
Value rotary(Value x, Value table);
// Indices (…, k) i64 of the k largest of the last axis, largest first. NaN is larger than any number; of equal values
// the first is larger. gather(x, -1, top_k(x, k)) are the values.
Value top_k(Value x, int64_t k);
Value swiglu(Value gate, Value x);  // silu(gate) · x
Value geglu(Value gate, Value x);   // gelu(gate) · x
struct AttentionOptions {
  bool causal = false;                         // row t sees keys 0 … t + S − T
  std::optional<double> scale = std::nullopt;  // 1 / √D
  Value mask = {};  // (1 or B, 1 or H, 1 or T, S), dtype of q, optional; added to the scores; −∞ hides a key
  // Dropout of the weights with the mask weights_dropout_mask(dropout_key, sample_ids, (B, H, T, S), layer, dropout).
  double dropout = 0;
  Value dropout_key = {}, sample_ids = {};
  int64_t layer = 0;
};
// softmax(scale · q kᵀ + mask) v, without a (T, S) array in memory. q: (B, H, T, D); k, v: (B, G, S, D), where head h
// of q uses head h / (H / G) of k and v. Returns (B, H, T, D); 0 for a row that sees no key. (attention.h)
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {});
// 0 or 1/(1−p) for each element of `shape`, f32; axis 0 is the sample axis. A function of the key {seed, epoch}, the id
// of the sample, the layer, and the position of the element in the sample, so it does not depend on batching.
Value dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p);
// The same for attention weights (B, H, T, S), where the position is (h, t, s), so it does not depend on padding.
Value weights_dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p);

// Random numbers in f32: uniform on [0, 1) in steps of 2⁻²⁴, or normal with mean 0 and variance 1. A pure function of
// the key {seed, draw}, the stream and the position of the element (docs/numerics.md, "Random numbers"); no gradient.
// The calls in one Program use streams 0, 1, … in [0, 2³²); the same key, stream and shape give the same numbers. The
// key is an input of kind kBatch, so that a new draw at each execution reuses the plan.
Value random_uniform(Value key, const Shape& shape, int64_t stream);
Value random_normal(Value key, const Shape& shape, int64_t stream);

// Losses by sample or element; reduce them with sum or mean.
struct CrossEntropyOptions {
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Value class_weights;  // (C), optional
};
Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options = {});  // (N, C), (N) -> (N)
// Losses (N) with label smoothing s: kept · loss of the label + each · sum of the losses of all classes, where
// kept = 1 − s and each = s / C are () of the logits' dtype. Here s may be an input; options.label_smoothing is part of
// the Program.
Value smoothed_cross_entropy(Value logits, Value labels, CrossEntropyOptions options, Value kept, Value each);
// Losses (N) of probabilities instead of labels: −Σ weight · probability · log softmax over the classes, as torch's
// cross_entropy. logits, probabilities: (N, C). class_weights: (C), optional. Throws Error(kRun) for other shapes.
Value soft_cross_entropy(Value logits, Value probabilities, Value class_weights = {});
// labels: (N) i64. Returns (N) f32, the weight of each sample in the mean of torch's cross_entropy: the class weight of
// its label, or 1; 0 for ignore_index.
Value label_weights(Value labels, const CrossEntropyOptions& options);
Value mse(Value prediction, Value target);
Value l1(Value prediction, Value target);
Value huber(Value prediction, Value target, double delta = 1.0);
Value bce_with_logits(Value logits, Value target);
Value bce_with_logits(Value logits, Value target, Value pos_weight);  // pos_weight: expanded to the shape of logits

// What accuracy, top-k and F1 need of each row. x: (…, N) floats; labels: (…) i64. Returns (…, 3) i64, rows of
// LabelRank (label_rank.h), without a gradient. NaN is larger than any number; of equal values the first is larger.
Value label_rank(Value x, Value labels);

// All-reduce over ranks. Every rank must record it. x: f32, f64, i32 or i64.
Value all_reduce(Value x, Reduction reduction, Subject subject);

}  // namespace runner::backends::ops
