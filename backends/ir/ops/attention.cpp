// Scaled dot-product attention (ir/attention.h).
#include "backends/ir/attention.h"

#include <cmath>
#include <limits>

#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends {

AttentionSpec AttentionSpec::of(Op op, size_t operands, std::span<const int64_t> attrs) {
  AttentionSpec spec{.causal = attrs[0] != 0,
                     .scale = unpack_f64(attrs[1]),
                     .layer = attrs[2],
                     .p = unpack_f64(attrs[3]),
                     .grad = op == Op::kAttentionGrad ? 3 : -1,
                     .mask = -1,
                     .key = -1,
                     .sample_ids = -1};
  int next = spec.grad < 0 ? 3 : 4;
  if (static_cast<int>(operands) > spec.operands()) spec.mask = next++;
  if (spec.p > 0) {
    spec.key = next++;
    spec.sample_ids = next++;
  }
  return spec;
}

std::array<int64_t, 4> AttentionSpec::attrs(bool causal, double scale, int64_t layer, double p) {
  return {causal, pack_f64(scale), layer, pack_f64(p)};
}

// ---- composition ---------------------------------------------------------------------------------------------------

namespace {

constexpr int64_t kLast[] = {-1};

// Head h of the result is head h / (heads / G) of x: (B, G, S, D).
Value repeat_heads(Value x, int64_t heads) {
  const Shape shape = x.shape();
  if (shape[1] == heads) return x;
  const Value each = ops::expand(ops::unsqueeze(x, 2), Shape{shape[0], shape[1], heads / shape[1], shape[2], shape[3]});
  return ops::reshape(each, Shape{shape[0], heads, shape[2], shape[3]});
}

// The gradient of repeat_heads().
Value sum_heads(Value x, int64_t groups) {
  const Shape shape = x.shape();
  if (shape[1] == groups) return x;
  const int64_t copies[] = {2};
  return ops::sum(ops::reshape(x, Shape{shape[0], groups, shape[1] / groups, shape[2], shape[3]}), copies);
}

// (T, S) bool: whether row t sees key s.
Value causal_mask(Program& program, int64_t tokens, int64_t keys) {
  const Value rows = ops::reshape(ops::arange(program, tokens), Shape{tokens, 1});
  return ops::le(ops::arange(program, keys), ops::add(rows, static_cast<double>(keys - tokens)));
}

Value summed(Value x) {
  return ops::cast(x, x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
}

}  // namespace

ComposedAttention compose_attention(const AttentionSpec& spec, std::span<const Value> operands) {
  const Value q = operands[0];
  const int64_t heads = q.shape()[1], tokens = q.shape()[2], keys = operands[1].shape()[2];
  ComposedAttention made{.k = repeat_heads(operands[1], heads),
                         .v = repeat_heads(operands[2], heads),
                         .weights = {},
                         .dropout = {},
                         .dropped = {}};
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  Value scores = ops::mul(summed(ops::matmul(q, made.k, false, true)), spec.scale);
  if (spec.causal) scores = ops::where(causal_mask(*q.program, tokens, keys), scores, ops::full_like(scores, kHidden));
  if (spec.mask >= 0) scores = ops::add(scores, summed(operands[static_cast<size_t>(spec.mask)]));
  made.weights = ops::softmax(scores);
  if (spec.mask >= 0 || (spec.causal && tokens > keys)) {
    const Value top = ops::reduce_max(scores, kLast, true);
    made.weights =
        ops::where(ops::eq(top, ops::full_like(top, kHidden)), ops::full_like(made.weights, 0), made.weights);
  }
  made.dropped = made.weights;
  if (spec.p > 0) {
    const Value mask =
        ops::weights_dropout_mask(operands[static_cast<size_t>(spec.key)],
                                  operands[static_cast<size_t>(spec.sample_ids)], scores.shape(), spec.layer, spec.p);
    made.dropout = ops::cast(mask, scores.dtype());
    made.dropped = ops::mul(made.weights, made.dropout);
  }
  return made;
}

Value composed_result(const ComposedAttention& attention, std::span<const Value> operands) {
  return ops::matmul(ops::cast(attention.dropped, operands[0].dtype()), attention.v);
}

// The gradient of softmax: w (d − Σ w d), where d is the gradient of the weights.
Value composed_score_gradient(const ComposedAttention& attention, Value grad) {
  Value of_weights = summed(ops::matmul(grad, attention.v, false, true));
  if (attention.dropout) of_weights = ops::mul(of_weights, attention.dropout);
  const Value dot = ops::sum(ops::mul(attention.weights, of_weights), kLast, true);
  return ops::mul(attention.weights, ops::sub(of_weights, dot));
}

ComposedGradients composed_gradients(const AttentionSpec& spec, const ComposedAttention& attention,
                                     std::span<const Value> operands) {
  const Value q = operands[0], grad = operands[static_cast<size_t>(spec.grad)];
  const int64_t groups = operands[1].shape()[1];
  ComposedGradients grads{.scores = composed_score_gradient(attention, grad), .q = {}, .k = {}, .v = {}};
  const Value scaled = ops::cast(ops::mul(grads.scores, spec.scale), q.dtype());
  grads.q = ops::matmul(scaled, attention.k);
  grads.k = sum_heads(ops::matmul(scaled, q, true, false), groups);
  grads.v = sum_heads(ops::matmul(ops::cast(attention.dropped, q.dtype()), grad, true, false), groups);
  return grads;
}

namespace op_defs {
namespace {

// ---- types ----

void check_attention(Query q) {
  const TensorType& x = q.operands[0];
  const TensorType& k = q.operands[1];
  const TensorType& v = q.operands[2];
  const bool fits = is_float(x.dtype) && x.shape.rank() == 4 && k.dtype == x.dtype && k == v && k.shape.rank() == 4 &&
                    k.shape[0] == x.shape[0] && k.shape[3] == x.shape[3] && k.shape[1] > 0 &&
                    x.shape[1] % k.shape[1] == 0;
  check(
      fits,
      "{}: expected q (B, H, T, D) and k, v (B, G, S, D) of one float dtype with H a multiple of G, got {}, {} and {}",
      name_of(q.op), x, k, v);
}

void check_mask(Query q, const TensorType& mask) {
  const Shape scores = q.operands[0].shape.with(3, q.operands[1].shape[2]);
  bool fits = mask.dtype == q.operands[0].dtype && mask.shape.rank() == 4 && mask.shape[3] == scores[3];
  for (int axis = 0; axis < 3 && fits; ++axis) fits = mask.shape[axis] == 1 || mask.shape[axis] == scores[axis];
  check(fits, "{}: expected a mask that broadcasts to {} {}, with the last axis in full, got {}", name_of(q.op), scores,
        name_of(q.operands[0].dtype), mask);
}

void check_dropout(Query q, const AttentionSpec& spec) {
  check(spec.p >= 0 && spec.p < 1, "{}: expected a dropout in [0, 1), got {}", name_of(q.op), spec.p);
  if (spec.p == 0) return;
  const TensorType& key = q.operands[static_cast<size_t>(spec.key)];
  const TensorType& ids = q.operands[static_cast<size_t>(spec.sample_ids)];
  check(key == TensorType{DType::kI64, Shape{2}} && ids == TensorType{DType::kI64, Shape{q.operands[0].shape[0]}},
        "{}: expected a dropout key (2) i64 and sample ids ({}) i64, got {} and {}", name_of(q.op),
        q.operands[0].shape[0], key, ids);
}

AttentionSpec checked_spec(Query q) {
  const AttentionSpec spec = AttentionSpec::of(q.op, q.operands.size(), q.attrs);
  check(static_cast<size_t>(spec.operands()) == q.operands.size(), "{}: expected {} operands with dropout {}, got {}",
        name_of(q.op), spec.operands(), spec.p, q.operands.size());
  check_attention(q);
  check_dropout(q, spec);
  if (spec.mask >= 0) check_mask(q, q.operands[static_cast<size_t>(spec.mask)]);
  return spec;
}

TensorType attention_type(Query q) {
  checked_spec(q);
  return q.operands[0];
}

TensorType attention_grad_type(Query q) {
  const AttentionSpec spec = checked_spec(q);
  check_gradient(q.operands[static_cast<size_t>(spec.grad)], q.operands[0], name_of(q.op));
  const int64_t elements = q.operands[0].shape.elements() + 2 * q.operands[1].shape.elements();
  return {q.operands[0].dtype, Shape{elements}};
}

// ---- gradient ----

// The gradient of a mask is composed; most masks have none, and it is removed.
Value mask_gradient(const AttentionSpec& spec, std::span<const Value> operands, Value grad) {
  const Value mask = operands[static_cast<size_t>(spec.mask)];
  const Value of_scores = composed_score_gradient(compose_attention(spec, operands), grad);
  std::vector<int64_t> axes;
  for (int axis = 0; axis < 3; ++axis)
    if (mask.shape()[axis] != of_scores.shape()[axis]) axes.push_back(axis);
  return ops::cast(axes.empty() ? of_scores : ops::sum(of_scores, axes, true), mask.dtype());
}

void attention_gradient(Value result, Value grad, Grads grads) {
  Program& program = *result.program;
  const std::vector<int64_t> attributes = copy_of_attrs(result);
  const AttentionSpec spec = AttentionSpec::of(Op::kAttention, grads.size(), attributes);
  std::vector<Value> operands;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < grads.size(); ++i) operands.push_back(operand(result, i));
  for (const Value& value : operands) ids.push_back(value.id);
  ids.insert(ids.begin() + 3, grad.id);
  const Value flat{&program, program.record(Op::kAttentionGrad, ids, attributes)};
  int64_t first = 0;
  for (size_t i = 0; i < 3; ++i) {
    const Shape shape = operands[i].shape();
    grads[i] = ops::reshape(ops::slice(flat, 0, first, first + shape.elements()), shape);
    first += shape.elements();
  }
  if (spec.mask >= 0) grads[static_cast<size_t>(spec.mask)] = mask_gradient(spec, operands, grad);
}

// ---- costs ----

// Pairs of a row and a key that it sees.
int64_t pairs(Query q) {
  const Shape& x = q.operands[0].shape;
  const int64_t tokens = x[2], keys = q.operands[1].shape[2];
  int64_t each = tokens * keys;
  if (q.attrs[0] != 0) {
    const int64_t seen = std::min(tokens, keys);  // the rows that see a key: the last sees all
    each = seen * keys - seen * (seen - 1) / 2;
  }
  return x[0] * x[1] * each;
}

// `products` products of `flops` each per element of a head, and the softmax or its gradient.
template <int64_t products, int64_t row_flops>
int64_t attention_flops(Query q, const TensorType& /*result*/) {
  return pairs(q) * (2 * products * q.operands[0].shape[3] + row_flops);
}

// XLA computes all pairs, and a softmax between products.
template <int64_t products, XlaRates rates>
XlaCount attention_xla(Query q, const TensorType& result) {
  const Shape& x = q.operands[0].shape;
  const TensorType scores{q.operands[0].dtype, x.with(3, q.operands[1].shape[2])};
  XlaCount count = counted(rates, scores, result);
  count.flops += 2 * products * scores.shape.elements() * x[3];
  return count;
}

constexpr Attribute kAttentionAttributes[] = {
    {"causal", Type::kInt, kFlag, kAlways, kNameAndValue, "is_causal={}", ""},
    {"scale", Type::kF64, kAnyInt, kAlways, kNameAndValue, "scale={}", ""},
    {"layer", Type::kInt, kAnyInt, kAlways, kNameAndValue, "", ""},
    {"dropout", Type::kF64, kAnyInt, kAlways, kNameAndValue, "dropout_p={}", ""},
};

struct AttentionDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<int> matrix_operands;
  Required<FlopRule> flops;
  Required<XlaRule> xla_count;
  Required<std::string_view> aten;
};
constexpr OpDef attention_op(const AttentionDef& def) {
  return {.attributes = Attributes(kAttentionAttributes),
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = kNoFold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = def.matrix_operands,
          .cost = {.flops = def.flops, .xla = def.xla_count, .traffic = kEachOnce},
          .batch = BatchRule::kGrows,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kNever,
          .autocast = AutocastRule::kLowerPrecision,
          .numbers = kNumbersAreOperands,
          .xla = xla_names(def.aten, kCustomCall)};
}

}  // namespace

// (q, k, v[, mask][, key, sample_ids]).
constexpr OpDef kAttention = attention_op(AttentionDef{
    .infer = attention_type,
    .gradient = attention_gradient,
    .matrix_operands = 3,
    .flops = attention_flops<2, 5>,
    .xla_count = attention_xla<2, kLogSumExp.plus(2)>,  // · scale, a division
    .aten = "aten::scaled_dot_product_attention",
});

// (q, k, v, grad[, mask][, key, sample_ids]) -> (dq | dk | dv). Computes the softmax again.
constexpr OpDef kAttentionGrad = attention_op(AttentionDef{
    .infer = attention_grad_type,
    .gradient = kNotDifferentiable,
    .matrix_operands = 4,
    .flops = attention_flops<5, 10>,
    .xla_count = attention_xla<5, kLogSumExp.plus(7)>,  // also the gradient of the softmax
    .aten = "aten::scaled_dot_product_attention_backward",
});

}  // namespace op_defs

namespace ops {

Value attention(Value q, Value k, Value v, const AttentionOptions& options) {
  check_input(q.shape().rank() == 4, q, "attention: expected q (B, H, T, D), got {}", q.type());
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape()[3])));
  std::vector<ValueId> operands{q.id, k.id, v.id};
  if (options.mask) operands.push_back(options.mask.id);
  if (options.dropout > 0) operands.insert(operands.end(), {options.dropout_key.id, options.sample_ids.id});
  const auto attrs = AttentionSpec::attrs(options.causal, scale, options.layer, options.dropout);
  return {q.program, q.program->record(Op::kAttention, operands, attrs)};
}

}  // namespace ops
}  // namespace runner::backends
