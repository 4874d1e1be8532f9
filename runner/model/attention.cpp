#include "runner/model/attention.h"

#include <limits>

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

Value attention(ForwardContext& context, Value q, Value k, Value v, const AttentionOptions& options) {
  const auto operand = [&](Value x) { return context.autocast.operand(Op::kAttention, x); };
  ops::AttentionOptions of_op{.causal = options.causal};
  const backends::DType dtype = operand(q).dtype();
  if (options.mask) of_op.mask = ops::cast(options.mask, dtype);
  if (options.key_mask) {
    const Value visible = ops::ne(options.key_mask, ops::full_like(options.key_mask, 0));
    const Value hidden = ops::reshape(additive_mask(visible, dtype, /*hides=*/false),
                                      Shape{visible.shape()[0], 1, 1, visible.shape()[1]});
    of_op.mask = of_op.mask ? ops::add(of_op.mask, hidden) : hidden;
  }
  use_dropout(context, of_op, options.dropout);
  return ops::attention(operand(q), operand(k), operand(v), of_op);
}

}  // namespace runner::nn
