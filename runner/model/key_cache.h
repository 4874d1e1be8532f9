// Keys and values of the tokens of a text, with which a language model computes its next token alone.
//
// A Program of a model with a KeyCache has one of two forms. The first computes the first tokens of a text and replaces
// the caches. The second computes one token at a position that is an input, and adds it to the caches. Each attention
// layer has two states of the Program, keys and values, (1, G, capacity, D), in the order of the layers. Only the
// logits of the last token are computed. Not thread-safe.
#pragma once

#include "backends/ir/ops.h"
#include "runner/model/module.h"

namespace runner::nn {

class KeyCache {
 public:
  // `capacity`: the most tokens of a text. `position`: (1) i64, of the one token of the second form; unset: first form.
  explicit KeyCache(int64_t capacity, Value position = {}) : capacity_(capacity), position_(position) {}

  // Position of the one token; unset in the first form.
  Value position() const { return position_; }

  // The keys that the new tokens see.
  struct Seen {
    Value k, v;              // (1, G, S, D)
    Value visible = {};      // (S) bool; unset: all
    bool is_causal = false;  // token t sees the keys 0 … t only
  };
  // Adds the keys and values of the new tokens of the next layer, (1, G, T, D).
  Seen add(Value k, Value v);

 private:
  Value kept(Value rows, const char* name);

  const int64_t capacity_;
  const Value position_;
};

// Positions of the tokens of a forward pass: 0, 1, …, or that of the one token. Returns (tokens) i64.
Value token_positions(const ForwardContext& context, int64_t tokens);
// x: (B, T, C). Returns the tokens whose logits are computed: all, or (B, 1, C) with a cache.
Value predicting_tokens(const ForwardContext& context, Value x);

}  // namespace runner::nn
