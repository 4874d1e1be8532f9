#include "runner/model/attention.h"

#include <cmath>
#include <limits>

#include "backends/ir/type_text.h"

namespace runner::nn {
namespace {

namespace ops = backends::ops;
using backends::Op;
using backends::Shape;

// Head h of the result is head h / (heads / G) of x: (B, G, S, D).
Value repeat_heads(Value x, int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[1] == heads) return x;
  const Value each = ops::expand(ops::unsqueeze(x, 2), Shape{shape[0], shape[1], heads / shape[1], shape[2], shape[3]});
  return ops::reshape(each, Shape{shape[0], heads, shape[2], shape[3]});
}

// (T, S) bool: whether token t sees key s. The last token sees all keys.
Value causal_mask(backends::Program& program, int64_t tokens, int64_t keys) {
  const Value rows = ops::reshape(ops::arange(program, tokens), Shape{tokens, 1});
  return ops::le(ops::arange(program, keys), ops::add(rows, static_cast<double>(keys - tokens)));
}

// Returns a bool that broadcasts to (B, H, T, S), or no value if every token sees every key.
Value visible_keys(Value q, Value k, const AttentionOptions& options) {
  const int64_t tokens = q.shape()[2], keys = k.shape()[2];
  Value visible;
  if (options.causal && tokens > 1) visible = causal_mask(*q.program, tokens, keys);
  if (!options.key_mask) return visible;
  const Value own = ops::reshape(ops::ne(options.key_mask, ops::full_like(options.key_mask, 0)),
                                 Shape{options.key_mask.shape()[0], 1, 1, keys});
  return visible ? ops::logical_and(visible, own) : own;
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
  const Autocast& autocast = context.autocast;
  const auto product = [&](Value a, Value b, bool transposed) {
    return ops::matmul(autocast.operand(Op::kMatmul, a), autocast.operand(Op::kMatmul, b), false, transposed);
  };
  const int64_t heads = q.shape()[1];
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[3]));
  Value scores = autocast.operand(Op::kSoftmax, ops::mul(product(q, repeat_heads(k, heads), true), scale));
  const Value visible = visible_keys(q, k, options);
  // The lowest number instead of −∞, so that the softmax of a row without a visible key is a number.
  if (visible) scores = ops::where(visible, scores, ops::full_like(scores, std::numeric_limits<float>::lowest()));
  Value weights = ops::softmax(scores);
  if (options.key_mask) weights = ops::where(visible, weights, ops::full_like(weights, 0));
  weights = apply_dropout(context, weights, options.dropout);
  return product(weights, repeat_heads(v, heads), false);
}

}  // namespace runner::nn
