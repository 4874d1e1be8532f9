// Attention of transformers over sequences, with several heads.
#pragma once

#include "backends/ir/ops.h"
#include "runner/model/module.h"

namespace runner::nn {

// split_heads(): (B, T, heads · D) -> (B, heads, T, D); merge_heads() is its inverse.
Value split_heads(Value x, int64_t heads);
Value merge_heads(Value x);

// The frequencies 1 / θ^(2i / width) of rotary embeddings of `width` elements, f32, rounded as in transformers.
Value rotary_frequencies(backends::Program& program, int64_t width, double theta);

// A mask as numbers to add to scores: −∞ where a bool mask equals `hides`, else 0.
Value additive_mask(Value mask, backends::DType dtype, bool hides);

// In training, sets the options with which the op drops attention weights with probability p.
void use_dropout(ForwardContext& context, backends::ops::AttentionOptions& options, double p);

struct AttentionOptions {
  bool causal = false;  // token t sees tokens 0 … t
  double dropout = 0;   // of the attention weights, in training
  // (B, S) i64, optional: the keys whose value is not 0 are seen. The result for a token that sees no key is 0.
  Value key_mask = {};
  // Floats added to the scores, optional; −∞ hides a key. Broadcasts to (B, H, T, S), with the last axis in full.
  Value mask = {};
};

// softmax(q kᵀ / √D) v. q: (B, H, T, D); k, v: (B, G, S, D), where head h of q uses head h / (H / G) of k and v.
// Returns (B, H, T, D). With a cache (key_cache.h), k and v are of the new tokens, and the earlier ones are seen too;
// the attention is then causal, without masks.
Value attention(ForwardContext& context, Value q, Value k, Value v, const AttentionOptions& options);

}  // namespace runner::nn
