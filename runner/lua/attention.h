// Attention in Lua: nn.scaled_dot_product_attention, and the arguments of modules that compute attention.
#pragma once

#include "runner/lua/recording.h"
#include "runner/model/transformer.h"

struct lua_State;

namespace runner::lua {

// Arguments from index `first` on of a module that computes attention: key and value if it takes them, then options
// {key_padding_mask, attn_mask, is_causal}, which nn.TransformerEncoderLayer calls {src_key_padding_mask, src_mask,
// is_causal}. `x`: the queries (B, T, E).
nn::AttentionCall attention_call(lua_State* state, int first, Value x, bool takes_keys);

}  // namespace runner::lua
