// Operands and attributes of the ops attention and attention_grad, and attention as a composition of other ops.
//
// Scaled dot-product attention: out = dropout(softmax(scale · q kᵀ + mask)) v over the keys that a row sees. q: (B, H,
// T, D); k, v: (B, G, S, D), where head h of q uses head h / (H / G) of k and v. With `causal`, row t sees keys 0 … t +
// S − T, so the last row sees all. mask: (1 or B, 1 or H, 1 or T, S), added to the scores; −∞ hides a key. A row that
// sees no key gives 0. attention_grad returns dq, dk and dv, one after the other in one array.
#pragma once

#include <array>
#include <span>

#include "backends/ir/program.h"

namespace runner::backends {

struct AttentionSpec {
  bool causal;
  double scale;
  int64_t layer;  // of the dropout mask (ops::weights_dropout_mask()), which has the shape (B, H, T, S)
  double p;       // probability of dropout; 0: none

  // Positions of the operands after q, k and v; −1: absent.
  int grad, mask, key, sample_ids;

  // `operands`: their number.
  static AttentionSpec of(Op op, size_t operands, std::span<const int64_t> attrs);
  static std::array<int64_t, 4> attrs(bool causal, double scale, int64_t layer, double p);
  int operands() const { return 3 + (grad >= 0) + (mask >= 0) + 2 * (p > 0); }
};

// Whether a node dropout_mask with these attributes is of attention weights.
inline bool masks_weights(std::span<const int64_t> attrs) {
  return attrs.size() > 2 && attrs[2] != 0;
}

// An attention node as matmul, softmax, dropout and matmul, as PyTorch/XLA traces it.
struct ComposedAttention {
  Value k, v;     // with the heads of q
  Value weights;  // softmax: (B, H, T, S), f32 or f64
  Value dropout;  // mask; none without dropout
  Value dropped;  // weights after dropout
};
// `node`: attention or attention_grad, whose operands `operands` are values of the Program to record into.
ComposedAttention compose_attention(const AttentionSpec& spec, std::span<const Value> operands);
Value composed_result(const ComposedAttention& attention, std::span<const Value> operands);

struct ComposedGradients {
  Value scores;  // (B, H, T, S), of scale · q kᵀ + mask
  Value q, k, v;
};
// `grad`: gradient of the result.
Value composed_score_gradient(const ComposedAttention& attention, Value grad);
ComposedGradients composed_gradients(const AttentionSpec& spec, const ComposedAttention& attention,
                                     std::span<const Value> operands);

}  // namespace runner::backends
