// Sums of channels, and batch normalisation with given statistics.
#include <algorithm>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends {
namespace op_defs {
namespace {

// ---- types ----

// Numbers of channels are f32, or f64 for f64.
TensorType of_channels(const TensorType& x) {
  return {x.dtype == DType::kF64 ? DType::kF64 : DType::kF32, Shape{x.shape[1]}};
}

// Whether the op computes both in the same type.
bool are_alike(DType a, DType b) {
  return is_float(a) && is_float(b) && (a == DType::kF64) == (b == DType::kF64);
}

const TensorType& channel_operand(Query q) {
  const TensorType& x = q.operands[0];
  check(is_float(x.dtype) && x.shape.rank() >= 2 && x.shape[1] > 0,
        "{}: expected a tensor (B, C, …) of floats with C ≥ 1, got {}", name_of(q.op), x);
  return x;
}

TensorType channel_sum_type(Query q) {
  const TensorType& a = channel_operand(q);
  if (q.operands.size() == 3) {
    const TensorType& x = q.operands[1];
    check(are_alike(x.dtype, a.dtype) && x.shape == a.shape, "{}: expected tensors of one shape, got {} and {}",
          name_of(q.op), a, x);
  }
  const TensorType &means = q.operands.back(), sums = of_channels(a);
  check(q.operands.size() == 1 || (are_alike(means.dtype, a.dtype) && means.shape == sums.shape),
        "{}: expected means {}, got {}", name_of(q.op), sums, means);
  return sums;
}

TensorType batch_norm_type(Query q) {
  const TensorType& x = channel_operand(q);
  const TensorType wanted{x.dtype, Shape{x.shape[1]}};
  for (const TensorType& of_channel : q.operands.subspan(1))
    check(of_channel == wanted, "{}: expected means, scales and biases {} for {}, got {}", name_of(q.op), wanted, x,
          of_channel);
  return x;
}

// ---- gradients ----

// (C) as (C, 1, …), which broadcasts over x (B, C, …).
Value over_channels(Value v, Value x) {
  Shape shape = x.shape().without(0);
  for (int axis = 1; axis < shape.rank(); ++axis) shape = shape.with(axis, 1);
  return ops::reshape(v, shape);
}

// x − mean in the dtype of `like`.
Value centred(Value x, Value mean, Value like) {
  return ops::sub(ops::cast(x, like.dtype()), over_channels(ops::cast(mean, like.dtype()), x));
}

double values_per_channel(Value x) {
  const int64_t values = x.shape().elements() / x.shape()[1];
  return static_cast<double>(values);
}

void channel_sum_gradient(Value result, Value grad, Grads grads) {
  const Value a = operand(result, 0), of_a = over_channels(grad, a);
  switch (grads.size()) {
    case 1: grads[0] = ops::cast(ops::expand(of_a, a.shape()), a.dtype()); break;
    case 2: {
      const Value mean = operand(result, 1), twice = ops::mul(grad, 2.0);
      grads[0] = ops::cast(ops::mul(centred(a, mean, grad), over_channels(twice, a)), a.dtype());
      // Nearly 0 if these are the means of a; the forward pass has their sums.
      const Value sums = ops::mul(ops::cast(mean, grad.dtype()), values_per_channel(a));
      grads[1] = ops::cast(ops::mul(ops::sub(sums, ops::channel_sum(a)), twice), mean.dtype());
      break;
    }
    default: {
      const Value x = operand(result, 1), mean = operand(result, 2);
      grads[0] = ops::cast(ops::mul(centred(x, mean, grad), of_a), a.dtype());
      grads[1] = ops::cast(ops::mul(ops::cast(a, grad.dtype()), of_a), x.dtype());
      grads[2] = ops::cast(ops::neg(ops::mul(ops::channel_sum(a), grad)), mean.dtype());
    }
  }
}

void batch_norm_gradient(Value result, Value grad, Grads grads) {
  const Value x = operand(result, 0), mean = operand(result, 1), scale = operand(result, 2);
  const Value sum = ops::cast(ops::channel_sum(grad), scale.dtype());
  grads[0] = ops::mul(grad, over_channels(scale, x));
  grads[1] = ops::neg(ops::mul(sum, scale));
  grads[2] = ops::cast(ops::channel_sum_of_products(grad, x, mean), scale.dtype());
  if (grads.size() > 3) grads[3] = sum;
}

// ---- folding ----

// 16-bit floats that were cast to f32 are read as they are.
ValueId without_widening(const FoldQuery& query, ValueId operand) {
  const Node& node = query.to.node(operand);
  if (node.op != Op::kCast || node.type.dtype != DType::kF32) return operand;
  const ValueId source = query.to.operands(operand)[0];
  const DType from = query.to.type(source).dtype;
  return is_float(from) && size_of(from) == 2 ? source : operand;
}

ValueId fold_channel_sum(const FoldQuery& query) {
  std::vector<ValueId> operands(query.operands.begin(), query.operands.end());
  for (size_t i = 0; i < std::max<size_t>(operands.size() - 1, 1); ++i)
    operands[i] = without_widening(query, operands[i]);
  if (std::ranges::equal(operands, query.operands)) return kNoValue;
  return query.to.record(Op::kChannelSum, operands, {}, query.type());
}

// As element-wise ops, which fuse with their neighbours: x · scale + (bias − mean · scale).
ValueId fold_batch_norm(const FoldQuery& query) {
  const auto value = [&](size_t i) { return Value{&query.to, query.operands[i]}; };
  const Value x = value(0), scale = value(2), shift = ops::mul(value(1), scale);
  const Value bias = query.operands.size() > 3 ? ops::sub(value(3), shift) : ops::neg(shift);
  return ops::add(ops::mul(x, over_channels(scale, x)), over_channels(bias, x)).id;
}

// ---- costs ----

int64_t channel_sum_flops(Query q, const TensorType&) {
  return q.operands[0].shape.elements() * (q.operands.size() == 1 ? 1 : 3);
}
int64_t batch_norm_flops(Query q, const TensorType& result) {
  return result.shape.elements() * (static_cast<int64_t>(q.operands.size()) - 1);
}

struct ChannelDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<FlopRule> flops;
  Required<XlaRule> xla_count;
  Required<BatchRule> batch;
  Required<InPlaceRule> in_place;
  Required<std::string_view> aten;
};
constexpr OpDef channel_op(const ChannelDef& def) {
  return {.attributes = Attributes(),
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = def.fold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = def.flops, .xla = def.xla_count, .traffic = kEachOnce},
          .batch = def.batch,
          .memory = MemoryRule::kBuffer,
          .in_place = def.in_place,
          .autocast = AutocastRule::kFloat32,
          .numbers = kNumbersAreOperands,
          .xla = xla_names(def.aten, kCustomCall)};
}

template <FlopRule rule>
XlaCount xla_flops(Query q, const TensorType& result) {
  return {.flops = rule(q, result)};
}

}  // namespace

// Sums over all axes but the second, as (C) f32, or f64 for f64: Σ a of (a), Σ (a − mean)² of (a, mean), Σ a (x − mean)
// of (a, x, mean). a, x: (B, C, …); mean: (C), as the result or of 16 bits.
constexpr OpDef kChannelSum = channel_op(ChannelDef{
    .infer = channel_sum_type,
    .gradient = channel_sum_gradient,
    .fold = fold_channel_sum,
    .flops = channel_sum_flops,
    .xla_count = xla_flops<channel_sum_flops>,
    .batch = BatchRule::kSumsSamples,
    .in_place = InPlaceRule::kNever,
    .aten = "aten::batch_norm_stats",
});

// (x (B, C, …), mean (C), scale (C) [, bias (C)]) -> (x − mean) · scale + bias, all of one dtype, computed as x · scale
// plus a number for each channel, as PyTorch does.
constexpr OpDef kBatchNorm = channel_op(ChannelDef{
    .infer = batch_norm_type,
    .gradient = batch_norm_gradient,
    .fold = fold_batch_norm,
    .flops = batch_norm_flops,
    .xla_count = xla_flops<batch_norm_flops>,
    .batch = BatchRule::kGrows,
    .in_place = InPlaceRule::kSameElement,
    .aten = "aten::batch_norm_elemt",
});

}  // namespace op_defs

namespace ops {

Value channel_sum(Value a) {
  return record(Op::kChannelSum, {a});
}
Value channel_sum_of_squares(Value x, Value mean) {
  return record(Op::kChannelSum, {x, mean});
}
Value channel_sum_of_products(Value a, Value x, Value mean) {
  return record(Op::kChannelSum, {a, x, mean});
}

Value batch_norm(Value x, Value mean, Value scale, Value bias) {
  return bias ? record(Op::kBatchNorm, {x, mean, scale, bias}) : record(Op::kBatchNorm, {x, mean, scale});
}

}  // namespace ops
}  // namespace runner::backends
