#include "runner/model/attention.h"

#include <limits>

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Op;
using backends::Shape;

// The mask to add to the scores: −∞ for keys that are hidden.
Value additive_mask(Value key_mask, backends::DType dtype) {
  const Value visible = ops::ne(key_mask, ops::full_like(key_mask, 0));
  const Value zero = ops::full_like(ops::cast(visible, dtype), 0);
  const Value mask = ops::where(visible, zero, ops::full_like(zero, -std::numeric_limits<double>::infinity()));
  return ops::reshape(mask, Shape{key_mask.shape()[0], 1, 1, key_mask.shape()[1]});
}

}  // namespace

Value split_heads(Value x, int64_t heads) {
  const Shape& shape = x.shape();
  return ops::transpose(ops::reshape(x, Shape{shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
}

Value merge_heads(Value x) {
  const Shape shape = x.shape();
  return ops::reshape(ops::transpose(x, 1, 2), Shape{shape[0], shape[2], shape[1] * shape[3]});
}

Value attention(ForwardContext& context, Value q, Value k, Value v, const AttentionOptions& options) {
  const auto operand = [&](Value x) { return context.autocast.operand(Op::kAttention, x); };
  ops::AttentionOptions of_op{.causal = options.causal};
  const backends::DType dtype = operand(q).dtype();
  if (options.mask) of_op.mask = ops::cast(options.mask, dtype);
  if (options.key_mask) {
    const Value hidden = additive_mask(options.key_mask, dtype);
    of_op.mask = of_op.mask ? ops::add(of_op.mask, hidden) : hidden;
  }
  if (context.training && options.dropout > 0) {
    of_op.dropout = options.dropout;
    of_op.dropout_key = context.dropout_key;
    of_op.sample_ids = context.sample_ids;
    of_op.layer = context.dropout_layers++;
  }
  return ops::attention(operand(q), operand(k), operand(v), of_op);
}

}  // namespace runner::nn
