// Reductions over axes, which the result does not have.
#include <algorithm>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

constexpr Attribute kAxesAttributes[] = {
    {"axes", Type::kAxes, kAnyInt, kAlways, kValue, "dim=({})", "dimensions={{{}}}"},
};
constexpr Attribute kAxisAttributes[] = {
    {"axis", Type::kAxis, kAnyInt, kAlways, kValue, "dim=({})", ""},
};

// ---- types ----

Shape reduced(Query q) {
  Shape result = q.operands[0].shape;
  for (size_t i = q.attrs.size(); i-- > 0;) result = result.without(static_cast<int>(q.attrs[i]));
  return result;
}

TensorType sum_type(Query q) {
  return {number_operand(q).dtype, reduced(q)};
}

// Of reductions without an identity.
TensorType extremum_type(Query q) {
  const TensorType x = number_operand(q);
  for (const int64_t axis : q.attrs)
    check(x.shape[static_cast<int>(axis)] > 0, "{}: axis {} of {} is empty", name_of(q.op), axis, x);
  return {x.dtype, reduced(q)};
}

TensorType argmax_type(Query q) {
  return {DType::kI64, extremum_type(q).shape};
}

// ---- gradients ----

// The result of a reduction over `axes`, repeated along them to `shape`.
Value spread(Value reduced, const Shape& shape, std::span<const int64_t> axes) {
  Shape kept = shape;
  for (const int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return ops::expand(ops::reshape(reduced, kept), shape);
}

// Equal elements share the gradient, as torch.amax.
void reduced_extremum_gradient(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0);
  const std::vector<int64_t> axes = copy_of_attrs(result);
  const Value hit = ops::cast(ops::eq(x, spread(result, x.shape(), axes)), x.dtype());
  const Value share = ops::div(grad, ops::sum(hit, axes));
  grads[0] = ops::mul(hit, spread(share, x.shape(), axes));
}

struct ReductionDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<std::optional<Op>> combines_by;
  Required<XlaRule> xla_count;
  XlaNames xla;
};
constexpr OpDef reduction(const ReductionDef& def) {
  return {.attributes = def.attributes,
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = kNoFold,
          .combines_by = def.combines_by,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = flops<1, 0>, .xla = def.xla_count, .traffic = kEachOnce},
          .batch = BatchRule::kUnlessReduced,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kNever,
          .autocast = AutocastRule::kAsGiven,
          .numbers = kNumbersAreOperands,
          .xla = def.xla};
}

constexpr Hlo hlo_reduce(std::string_view applies, std::string_view begins_with) {
  return {.form = HloForm::kInstruction, .opcode = "reduce", .details = "", .scalar = begins_with, .applies = applies};
}

// n elements in n − 1 steps.
constexpr XlaRates kReduced{.flops = 1, .flops_of_result = -1};

}  // namespace

constexpr OpDef kSum = reduction(ReductionDef{
    .attributes = Attributes(kAxesAttributes),
    .infer = sum_type,
    .gradient = [](Value result, Value grad,
                   Grads grads) { grads[0] = spread(grad, operand(result, 0).shape(), attrs(result)); },
    .combines_by = Op::kAdd,
    .xla_count = xla_count<kReduced, 0>,
    .xla = xla_names("aten::sum", hlo_reduce("add", "0")),
});

constexpr OpDef kReduceMax = reduction(ReductionDef{
    .attributes = Attributes(kAxesAttributes),
    .infer = extremum_type,
    .gradient = reduced_extremum_gradient,
    .combines_by = Op::kMax,
    .xla_count = xla_count<kReduced, 0>,
    .xla = xla_names("aten::amax", hlo_reduce("maximum", "-inf")),
});

constexpr OpDef kReduceMin = reduction(ReductionDef{
    .attributes = Attributes(kAxesAttributes),
    .infer = extremum_type,
    .gradient = reduced_extremum_gradient,
    .combines_by = Op::kMin,
    .xla_count = xla_count<kReduced, 0>,
    .xla = xla_names("aten::amin", hlo_reduce("minimum", "inf")),
});

// i64: the position of the first of the largest along one axis; NaN counts as largest.
// XLA: two comparisons, three selections and a minimum for each pair.
constexpr OpDef kArgMax = reduction(ReductionDef{
    .attributes = Attributes(kAxisAttributes),
    .infer = argmax_type,
    .gradient = kNoGradient,
    .combines_by = std::nullopt,
    .xla_count = xla_count<XlaRates{.flops = 6, .flops_of_result = -6}, 0>,
    .xla = xla_names("aten::argmax", kCustomCall),
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {
namespace {

// The axes as ascending, non-negative numbers; all of them for an empty list.
std::vector<int64_t> normal_axes(std::string_view op, Value x, std::span<const int64_t> axes) {
  std::vector<int64_t> normal;
  for (const int64_t axis : axes) normal.push_back(normal_axis(op, x, axis));
  if (axes.empty())
    for (int axis = 0; axis < x.shape().rank(); ++axis) normal.push_back(axis);
  std::sort(normal.begin(), normal.end());
  check_input(std::adjacent_find(normal.begin(), normal.end()) == normal.end(), x, "{}: an axis of {} occurs twice", op,
              x.type());
  return normal;
}

}  // namespace

Value reduce(Op op, Value x, std::span<const int64_t> axes, bool keep_dims) {
  if (x.shape().rank() == 0) return reshape(reduce(op, reshape(x, Shape{1}), {}, true), Shape{});
  const std::vector<int64_t> normal = normal_axes(name_of(op), x, axes);
  const Value result = record(op, {x}, normal);
  if (!keep_dims) return result;
  Shape kept = x.shape();
  for (const int64_t axis : normal) kept = kept.with(static_cast<int>(axis), 1);
  return reshape(result, kept);
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
  check_input(is_float(x.dtype()), x, "mean: expected a float tensor, got {}", x.type());
  const int64_t elements = x.shape().elements();
  const Value total = sum(summable(x), axes, keep_dims);
  const int64_t results = total.shape().elements();
  const double each = results == 0 ? 1.0 : static_cast<double>(elements) / static_cast<double>(results);
  return cast(div(total, each), x.dtype());
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

// A finite maximum is subtracted first, without a derivative: the gradients of the other terms sum to 1.
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

}  // namespace runner::backends::ops
