#include "backends/graph/ops.h"

#include <algorithm>
#include <cmath>

#include "schema/error.h"

namespace runner::backends::ops {
namespace {

Value record(Op op, std::initializer_list<Value> operands, std::span<const int64_t> attrs = {},
             const TensorType& requested = {}) {
  std::array<ValueId, 4> ids{};
  size_t n = 0;
  for (const Value& operand : operands) ids[n++] = operand.id;
  Program& program = *operands.begin()->program;
  return {&program, program.record(op, {ids.data(), n}, attrs, requested)};
}

// The axes as ascending, non-negative numbers; all of them for an empty list.
std::vector<int64_t> normal_axes(const Shape& shape, std::span<const int64_t> axes, const char* what) {
  std::vector<int64_t> normal;
  for (const int64_t axis : axes) normal.push_back(shape.axis(axis, what));
  if (axes.empty())
    for (int axis = 0; axis < shape.rank(); ++axis) normal.push_back(axis);
  std::sort(normal.begin(), normal.end());
  RUN_CHECK(std::adjacent_find(normal.begin(), normal.end()) == normal.end(), ErrorKind::kRun,
            "{}: an axis of {} is given twice", what, shape.to_string());
  return normal;
}

Value reduce(Op op, Value x, std::span<const int64_t> axes, bool keep_dims) {
  const Shape shape = x.shape();
  const std::vector<int64_t> normal = normal_axes(shape, axes, name_of(op).data());
  if (normal.empty() && op != Op::kArgMax) return x;
  const Value result = record(op, {x}, normal);
  if (!keep_dims) return result;
  Shape kept = shape;
  for (const int64_t axis : normal) kept = kept.with(static_cast<int>(axis), 1);
  return reshape(result, kept);
}

// Swaps `axis` with the last one around a row op.
Value over_last(Op op, Value x, int64_t axis) {
  const int normal = x.shape().axis(axis, name_of(op).data());
  if (normal == x.shape().rank() - 1) return record(op, {x});
  return transpose(record(op, {transpose(x, normal, -1)}), normal, -1);
}

}  // namespace

Value unary(Op op, Value x) {
  return record(op, {x});
}

Value binary(Op op, Value a, Value b) {
  if (a.shape() != b.shape()) {
    const Shape common = broadcast(a.shape(), b.shape());
    a = expand(a, common);
    b = expand(b, common);
  }
  return record(op, {a, b});
}

Value cast(Value x, DType dtype) {
  return x.dtype() == dtype ? x : record(Op::kCast, {x}, {}, {dtype, {}});
}

Value full_like(Value like, double value) {
  return {like.program, like.program->constant(value, like.type())};
}

Value scalar(Program& program, double value, DType dtype) {
  return {&program, program.constant(value, {dtype, {}})};
}

Value where(Value condition, Value x, Value y) {
  const Shape common = broadcast(condition.shape(), broadcast(x.shape(), y.shape()));
  return record(Op::kWhere, {expand(condition, common), expand(x, common), expand(y, common)});
}

Value clamp(Value x, std::optional<double> low, std::optional<double> high) {
  if (low) x = where(lt(x, *low), full_like(x, *low), x);
  if (high) x = where(gt(x, *high), full_like(x, *high), x);
  return x;
}

Value sum(Value x, std::span<const int64_t> axes, bool keep_dims) {
  return reduce(Op::kSum, x, axes, keep_dims);
}

Value reduce_max(Value x, std::span<const int64_t> axes, bool keep_dims) {
  return reduce(Op::kReduceMax, x, axes, keep_dims);
}

Value reduce_min(Value x, std::span<const int64_t> axes, bool keep_dims) {
  return reduce(Op::kReduceMin, x, axes, keep_dims);
}

Value mean(Value x, std::span<const int64_t> axes, bool keep_dims) {
  const int64_t elements = x.shape().elements();
  const Value total = sum(x, axes, keep_dims);
  const int64_t results = total.shape().elements();
  return div(total, results == 0 ? 1.0 : static_cast<double>(elements) / static_cast<double>(results));
}

// √ has no derivative at 0: where all elements are 0 the norm and its gradient are 0, as torch.linalg.vector_norm.
Value norm(Value x, std::span<const int64_t> axes, bool keep_dims) {
  const Value squares = sum(mul(x, x), axes, keep_dims);
  const Value zero = full_like(squares, 0.0);
  const Value is_zero = eq(squares, zero);
  return where(is_zero, zero, sqrt(where(is_zero, full_like(squares, 1.0), squares)));
}

Value argmax(Value x, int64_t axis, bool keep_dims) {
  const int64_t axes[] = {axis};
  return reduce(Op::kArgMax, x, axes, keep_dims);
}

Value reshape(Value x, const Shape& shape) {
  return x.shape() == shape ? x : record(Op::kReshape, {x}, {}, {x.dtype(), shape});
}

Value flatten(Value x) {
  return reshape(x, Shape{x.shape().elements()});
}

Value permute(Value x, std::span<const int64_t> axes) {
  std::vector<int64_t> normal(axes.begin(), axes.end());
  for (int64_t& axis : normal) axis = x.shape().axis(axis, "permute");
  return std::is_sorted(normal.begin(), normal.end()) && std::ssize(normal) == x.shape().rank()
             ? x
             : record(Op::kPermute, {x}, normal);
}

Value transpose(Value x, int64_t a, int64_t b) {
  std::vector<int64_t> axes(static_cast<size_t>(x.shape().rank()));
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[static_cast<size_t>(x.shape().axis(a, "transpose"))],
            axes[static_cast<size_t>(x.shape().axis(b, "transpose"))]);
  return permute(x, axes);
}

Value expand(Value x, const Shape& shape) {
  return x.shape() == shape ? x : record(Op::kExpand, {x}, {}, {x.dtype(), shape});
}

Value slice(Value x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const Shape shape = x.shape();
  const int at = shape.axis(axis, "slice");
  const int64_t size = shape[at];
  const auto from_end = [size](int64_t i) { return i < 0 ? i + size : i; };
  if (from_end(start) == 0 && from_end(stop) == size && step == 1) return x;
  std::vector<int64_t> cuts;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool here = i == at;
    cuts.insert(cuts.end(), {here ? from_end(start) : 0, here ? from_end(stop) : shape[i], here ? step : 1});
  }
  return record(Op::kSlice, {x}, cuts);
}

Value pad(Value x, int64_t axis, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return x;
  std::vector<int64_t> amounts(static_cast<size_t>(x.shape().rank()) * 2);
  const auto at = static_cast<size_t>(x.shape().axis(axis, "pad"));
  amounts[at * 2] = before;
  amounts[at * 2 + 1] = after;
  return record(Op::kPad, {x}, amounts);
}

Value concat(std::span<const Value> parts, int64_t axis) {
  RUN_CHECK(!parts.empty(), ErrorKind::kRun, "concat: wants at least one tensor");
  if (parts.size() == 1) return parts[0];
  std::vector<ValueId> ids;
  for (const Value& part : parts) ids.push_back(part.id);
  const int64_t attrs[] = {parts[0].shape().axis(axis, "concat")};
  return {parts[0].program, parts[0].program->record(Op::kConcat, ids, attrs)};
}

Value gather(Value x, int64_t axis, Value index) {
  const int64_t attrs[] = {x.shape().axis(axis, "gather")};
  return record(Op::kGather, {x, index}, attrs);
}

Value scatter_add(Value x, int64_t axis, Value index, Value src) {
  const int64_t attrs[] = {x.shape().axis(axis, "scatter_add")};
  return record(Op::kScatterAdd, {x, index, src}, attrs);
}

Value one_hot(Value index, int64_t classes) {
  const int64_t attrs[] = {classes};
  return record(Op::kOneHot, {index}, attrs);
}

Value embedding(Value table, Value ids) {
  return record(Op::kEmbedding, {table, ids});
}

Value matmul(Value a, Value b, bool transpose_a, bool transpose_b) {
  const int64_t attrs[] = {transpose_a, transpose_b};
  if (a.shape().rank() <= 2 || b.shape().rank() != 2 || transpose_a) return record(Op::kMatmul, {a, b}, attrs);
  const Shape shape = a.shape();
  const int64_t width = shape.back();
  const Value rows = reshape(a, Shape{width == 0 ? 0 : shape.elements() / width, width});
  const Value product = record(Op::kMatmul, {rows, b}, attrs);
  return reshape(product, shape.with(shape.rank() - 1, product.shape()[1]));
}

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

Value dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p) {
  const int64_t attrs[] = {layer, pack_f64(p)};
  return record(Op::kDropoutMask, {key, sample_ids}, attrs, {DType::kF32, shape});
}

Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options) {
  const int64_t attrs[] = {options.ignore_index, pack_f64(options.label_smoothing)};
  if (options.class_weights) return record(Op::kCrossEntropy, {logits, labels, options.class_weights}, attrs);
  return record(Op::kCrossEntropy, {logits, labels}, attrs);
}

Value mse(Value prediction, Value target) {
  const Value difference = sub(prediction, target);
  return mul(difference, difference);
}

Value l1(Value prediction, Value target) {
  return abs(sub(prediction, target));
}

// e²/2 for |e| ≤ δ, else δ (|e| − δ/2); torch.nn.HuberLoss.
Value huber(Value prediction, Value target, double delta) {
  const Value error = sub(prediction, target);
  const Value size = abs(error);
  const Value inside = mul(mul(error, error), 0.5);
  const Value outside = mul(sub(size, 0.5 * delta), delta);
  return where(ops::binary(Op::kLe, size, full_like(size, delta)), inside, outside);
}

// max(x, 0) − x y + log(1 + exp(−|x|)).
Value bce_with_logits(Value logits, Value target) {
  const Value softplus = log1p(exp(neg(abs(logits))));
  return add(sub(relu(logits), mul(logits, target)), softplus);
}

}  // namespace runner::backends::ops
