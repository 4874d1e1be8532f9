#include "backends/ir/ops.h"

#include <algorithm>
#include <numeric>

#include "backends/ir/type_text.h"
#include "schema/error.h"

namespace runner::backends::ops {
namespace {

// An input check with the source line in force, as Program::record has them.
template <class... Args>
void check(bool holds, Value x, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ErrorKind::kRun, fmt::format(format, std::forward<Args>(args)...), x.program->mark());
}

// The axis with negative numbers counted from the end.
int normal_axis(std::string_view op, Value x, int64_t axis) {
  const int rank = x.shape().rank();
  const int64_t normal = axis < 0 ? axis + rank : axis;
  check(normal >= 0 && normal < rank, x, "{}: axis {} does not exist in {}", op, axis, x.type());
  return static_cast<int>(normal);
}

Shape common_shape(std::string_view op, Value a, Value b) {
  const Shape x = a.shape(), y = b.shape();
  for (int i = 1; i <= std::min(x.rank(), y.rank()); ++i) {
    const int64_t p = x[x.rank() - i], q = y[y.rank() - i];
    check(p == q || p == 1 || q == 1, a, "{}: {} and {} do not broadcast: {} against {} at axis -{}", op, a.type(),
          b.type(), p, q, i);
  }
  return broadcast(x, y);
}

// Product of the axes before the last.
int64_t rows_of(const Shape& shape) {
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return rows;
}

Value record(Op op, std::initializer_list<Value> operands, std::span<const int64_t> attrs = {},
             const TensorType& requested = {}) {
  std::array<ValueId, 4> ids{};
  size_t n = 0;
  Program& program = *operands.begin()->program;
  for (const Value& operand : operands) {
    RUN_ASSERT(operand.program == &program);
    ids[n++] = operand.id;
  }
  return {&program, program.record(op, {ids.data(), n}, attrs, requested)};
}

// The axes as ascending, non-negative numbers; all of them for an empty list.
std::vector<int64_t> normal_axes(std::string_view op, Value x, std::span<const int64_t> axes) {
  std::vector<int64_t> normal;
  for (const int64_t axis : axes) normal.push_back(normal_axis(op, x, axis));
  if (axes.empty())
    for (int axis = 0; axis < x.shape().rank(); ++axis) normal.push_back(axis);
  std::sort(normal.begin(), normal.end());
  check(std::adjacent_find(normal.begin(), normal.end()) == normal.end(), x, "{}: an axis of {} is given twice", op,
        x.type());
  return normal;
}

Value reduce(Op op, Value x, std::span<const int64_t> axes, bool keep_dims) {
  if (x.shape().rank() == 0) return reshape(reduce(op, reshape(x, Shape{1}), {}, true), Shape{});
  const std::vector<int64_t> normal = normal_axes(name_of(op), x, axes);
  const Value result = record(op, {x}, normal);
  if (!keep_dims) return result;
  Shape kept = x.shape();
  for (const int64_t axis : normal) kept = kept.with(static_cast<int>(axis), 1);
  return reshape(result, kept);
}

// Swaps `axis` with the last one around a row op.
Value over_last(Op op, Value x, int64_t axis) {
  check(x.shape().rank() > 0, x, "{}: wants at least one axis, got {}", name_of(op), x.type());
  const int normal = normal_axis(name_of(op), x, axis);
  if (normal == x.shape().rank() - 1) return record(op, {x});
  return transpose(record(op, {transpose(x, normal, -1)}), normal, -1);
}

}  // namespace

Value unary(Op op, Value x) {
  return record(op, {x});
}

Value binary(Op op, Value a, Value b) {
  if (a.shape() != b.shape()) {
    const Shape common = common_shape(name_of(op), a, b);
    a = expand(a, common);
    b = expand(b, common);
  }
  return record(op, {a, b});
}

Value cast(Value x, DType dtype) {
  return x.dtype() == dtype ? x : record(Op::kCast, {x}, {}, {dtype, {}});
}

Value on_host(Value x) {
  return record(Op::kCast, {x}, {}, {x.dtype(), {}});
}

Value full_like(Value like, double value) {
  return {like.program, like.program->constant(value, like.type())};
}

Value vector(Program& program, std::span<const double> numbers) {
  std::vector<Value> parts;
  parts.reserve(numbers.size());
  for (const double number : numbers) parts.push_back({&program, program.constant(number, {DType::kF32, Shape{1}})});
  return concat(parts, 0);
}

// Doubles what there is: a node for each bit of the size.
Value arange(Program& program, int64_t size) {
  Value values{&program, program.constant(0, {DType::kI64, Shape{1}})};
  while (values.shape()[0] < size) {
    const Value parts[] = {values, add(values, static_cast<double>(values.shape()[0]))};
    values = concat(parts, 0);
  }
  return slice(values, 0, 0, size);
}

// max(x, 0) + log(1 + exp(−|x|)).  At x = 0 the maximum has slope ½ and |x| slope 0: the sum's is σ(0).
Value softplus(Value x) {
  return add(maximum(x, full_like(x, 0.0)), log1p(exp(neg(abs(x)))));
}

Value log_sigmoid(Value x) {
  return neg(softplus(neg(x)));
}

Value leaky_relu(Value x, Value slope) {
  return where(gt(x, 0.0), x, mul(x, slope));
}

// The exponential of what is not above 0: beyond, it would be infinite and its derivative NaN.
Value elu(Value x, Value alpha) {
  const Value below = minimum(x, full_like(x, 0.0));
  return where(gt(x, 0.0), x, mul(sub(exp(below), 1.0), alpha));
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
  check(is_float(x.dtype()), x, "mean: wants a float tensor, got {}", x.type());
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

Value variance(Value x, std::span<const int64_t> axes, bool keep_dims) {
  const Value centred = sub(x, mean(x, axes, true));
  const Value squares = sum(mul(centred, centred), axes, keep_dims);
  const int64_t results = squares.shape().elements();
  const int64_t each = results == 0 ? 0 : x.shape().elements() / results;
  return div(squares, static_cast<double>(each) - 1);
}

// The largest is taken out where it is finite, without a derivative: the others' sum is 1.
Value logsumexp(Value x, std::span<const int64_t> axes, bool keep_dims) {
  const Value largest = detach(reduce_max(x, axes, true));
  const Value shift = where(is_finite(largest), largest, full_like(largest, 0.0));
  const Value sums = log(sum(exp(sub(x, shift)), axes, keep_dims));
  return add(sums, reshape(shift, sums.shape()));
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

Value unsqueeze(Value x, int64_t axis) {
  const Shape shape = x.shape();
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  check(axis >= 0 && axis <= shape.rank(), x, "unsqueeze: there is no place {} in {}", axis, x.type());
  dims.insert(dims.begin() + axis, 1);
  return reshape(x, Shape(dims));
}

Value detach(Value x) {
  return record(Op::kDetach, {x});
}

Value permute(Value x, std::span<const int64_t> axes) {
  std::vector<int64_t> normal(axes.begin(), axes.end()), in_order(static_cast<size_t>(x.shape().rank()));
  for (int64_t& axis : normal) axis = normal_axis("permute", x, axis);
  std::iota(in_order.begin(), in_order.end(), 0);
  return normal == in_order ? x : record(Op::kPermute, {x}, normal);
}

Value transpose(Value x, int64_t a, int64_t b) {
  std::vector<int64_t> axes(static_cast<size_t>(x.shape().rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(normal_axis("transpose", x, a))],
            axes[static_cast<size_t>(normal_axis("transpose", x, b))]);
  return permute(x, axes);
}

Value expand(Value x, const Shape& shape) {
  return x.shape() == shape ? x : record(Op::kExpand, {x}, {}, {x.dtype(), shape});
}

Value slice(Value x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  const Shape shape = x.shape();
  const int at = normal_axis("slice", x, axis);
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
  const auto at = static_cast<size_t>(normal_axis("pad", x, axis));
  amounts[at * 2] = before;
  amounts[at * 2 + 1] = after;
  return record(Op::kPad, {x}, amounts);
}

Value concat(std::span<const Value> parts, int64_t axis) {
  RUN_CHECK(!parts.empty(), ErrorKind::kRun, "concat: wants at least one tensor");
  if (parts.size() == 1) return parts[0];
  std::vector<ValueId> ids;
  for (const Value& part : parts) ids.push_back(part.id);
  const int64_t attrs[] = {normal_axis("concat", parts[0], axis)};
  return {parts[0].program, parts[0].program->record(Op::kConcat, ids, attrs)};
}

Value stack(std::span<const Value> parts, int64_t axis) {
  std::vector<Value> rows;
  for (const Value& part : parts) {
    check(part.type() == parts[0].type(), part, "stack: {} and {} differ", parts[0].type(), part.type());
    rows.push_back(unsqueeze(part, axis));
  }
  return concat(rows, axis);
}

namespace {

// Column − row of each element of (…, M, N), to be compared with the number of a diagonal.
Value diagonal_of(std::string_view op, Value x) {
  const Shape shape = x.shape();
  check(shape.rank() >= 2, x, "{}: wants at least two axes, got {}", op, x.type());
  const int64_t rows = shape[shape.rank() - 2], columns = shape.back();
  return sub(arange(*x.program, columns), reshape(arange(*x.program, rows), Shape{rows, 1}));
}

}  // namespace

Value tril(Value x, int64_t diagonal) {
  const Value at = diagonal_of("tril", x);
  return where(le(at, full_like(at, static_cast<double>(diagonal))), x, full_like(x, 0.0));
}

Value triu(Value x, int64_t diagonal) {
  const Value at = diagonal_of("triu", x);
  return where(ge(at, full_like(at, static_cast<double>(diagonal))), x, full_like(x, 0.0));
}

Value gather(Value x, int64_t axis, Value index) {
  const int64_t attrs[] = {normal_axis("gather", x, axis)};
  return record(Op::kGather, {x, index}, attrs);
}

Value scatter_add(Value x, int64_t axis, Value index, Value src) {
  const int64_t attrs[] = {normal_axis("scatter_add", x, axis)};
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
  const Value rows = reshape(a, Shape{rows_of(shape), shape.back()});
  const Value product = record(Op::kMatmul, {rows, b}, attrs);
  return reshape(product, shape.with(shape.rank() - 1, product.shape()[1]));
}

Value add_matmul(Value c, Value a, Value b, bool transpose_a, bool transpose_b) {
  const int64_t attrs[] = {transpose_a, transpose_b};
  return record(Op::kMatmul, {a, b, c}, attrs);
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

Value random_uniform(Value key, const Shape& shape, int64_t stream) {
  const int64_t attrs[] = {stream};
  return record(Op::kRandomUniform, {key}, attrs, {DType::kF32, shape});
}

Value random_normal(Value key, const Shape& shape, int64_t stream) {
  const int64_t attrs[] = {stream};
  return record(Op::kRandomNormal, {key}, attrs, {DType::kF32, shape});
}

Value cross_entropy(Value logits, Value labels, const CrossEntropyOptions& options) {
  const int64_t attrs[] = {options.ignore_index, pack_f64(options.label_smoothing)};
  if (options.class_weights) return record(Op::kCrossEntropy, {logits, labels, options.class_weights}, attrs);
  return record(Op::kCrossEntropy, {logits, labels}, attrs);
}

Value smoothed_cross_entropy(Value logits, Value labels, CrossEntropyOptions options, Value kept, Value each) {
  options.label_smoothing = 0;
  const Value of_labels = cross_entropy(logits, labels, options);
  options.label_smoothing = 1;
  const Value of_classes = mul(cross_entropy(logits, labels, options), static_cast<double>(logits.shape()[1]));
  return add(mul(of_labels, kept), mul(of_classes, each));
}

Value label_weights(Value labels, const CrossEntropyOptions& options) {
  const Value skipped = eq(labels, full_like(labels, static_cast<double>(options.ignore_index)));
  Value weights{labels.program, labels.program->constant(1.0, {DType::kF32, labels.shape()})};
  if (const Value classes = options.class_weights) {
    // Labels to skip may lie outside the table: look up class 0 for them.
    const Value known = where(skipped, full_like(labels, 0.0), labels);
    weights = reshape(embedding(reshape(classes, Shape{classes.shape()[0], 1}), known), labels.shape());
  }
  return where(skipped, full_like(weights, 0.0), weights);
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

// max(x, 0) − x y + log(1 + exp(−|x|)).  At x = 0 the maximum has slope ½ and |x| slope 0: the sum's is σ(0) − y.
Value bce_with_logits(Value logits, Value target) {
  const Value softplus = log1p(exp(neg(abs(logits))));
  return add(sub(maximum(logits, full_like(logits, 0.0)), mul(logits, target)), softplus);
}

Value all_reduce(Value x, Reduction reduction, Subject subject) {
  return record(Op::kAllReduce, {x}, {{static_cast<int64_t>(reduction), static_cast<int64_t>(subject)}});
}

}  // namespace runner::backends::ops
