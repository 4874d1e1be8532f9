#include "runner/model/attention.h"

#include <limits>

#include "runner/model/key_cache.h"

namespace runner::nn {

namespace ops = backends::ops;
using backends::Op;
using backends::Shape;

Value split_heads(Value x, int64_t heads) {
  const Shape& shape = x.shape();
  return ops::transpose(ops::reshape(x, Shape{shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
}

Value merge_heads(Value x) {
  const Shape shape = x.shape();
  return ops::reshape(ops::transpose(x, 1, 2), Shape{shape[0], shape[2], shape[1] * shape[3]});
}

Value rotary_frequencies(backends::Program& program, int64_t width, double theta) {
  const Value pairs = ops::cast(ops::arange(program, width / 2), backends::DType::kF32);
  const Value exponents = ops::div(ops::mul(pairs, 2), static_cast<double>(width));
  return ops::div(1, ops::pow(ops::full_like(exponents, theta), exponents));
}

Value additive_mask(Value mask, backends::DType dtype, bool hides) {
  const Value zero = ops::full_like(ops::cast(mask, dtype), 0);
  const Value hidden = ops::full_like(zero, -std::numeric_limits<double>::infinity());
  return hides ? ops::where(mask, hidden, zero) : ops::where(mask, zero, hidden);
}

void use_dropout(ForwardContext& context, ops::AttentionOptions& options, double p) {
  if (!context.training || !(p > 0)) return;
  options.dropout = p;
  options.dropout_key = context.dropout_key;
  options.sample_ids = context.sample_ids;
  options.layer = context.dropout_layers++;
}

namespace {

// (…, S) bool -> (B, 1, 1, S), of masked scores.
Value hidden_keys(Value visible, int64_t batch, backends::DType dtype) {
  const Shape keys = visible.shape();
  return ops::reshape(additive_mask(visible, dtype, /*hides=*/false), Shape{batch, 1, 1, keys[keys.rank() - 1]});
}

Value cached_attention(KeyCache& cache, Value q, Value k, Value v) {
  const KeyCache::Seen seen = cache.add(k, v);
  ops::AttentionOptions of_op{.causal = seen.is_causal};
  if (seen.visible) of_op.mask = hidden_keys(seen.visible, 1, q.dtype());
  return ops::attention(q, seen.k, seen.v, of_op);
}

}  // namespace

Value attention(ForwardContext& context, Value q, Value k, Value v, const AttentionOptions& options) {
  const auto operand = [&](Value x) { return context.autocast.operand(Op::kAttention, x); };
  if (context.cache != nullptr) {
    RUN_ASSERT(options.causal && !options.key_mask && !options.mask && !context.training);
    return cached_attention(*context.cache, operand(q), operand(k), operand(v));
  }
  ops::AttentionOptions of_op{.causal = options.causal};
  const backends::DType dtype = operand(q).dtype();
  if (options.mask) of_op.mask = ops::cast(options.mask, dtype);
  if (options.key_mask) {
    const Value visible = ops::ne(options.key_mask, ops::full_like(options.key_mask, 0));
    const Value hidden = hidden_keys(visible, visible.shape()[0], dtype);
    of_op.mask = of_op.mask ? ops::add(of_op.mask, hidden) : hidden;
  }
  use_dropout(context, of_op, options.dropout);
  return ops::attention(operand(q), operand(k), operand(v), of_op);
}

}  // namespace runner::nn
