// Losses of nn in Lua: functions of predictions, targets and a table of options, for the table in tensor.cpp.
//
// They compute in f32, whatever the precision of the model is, and are means unless `reduction` says otherwise.
#pragma once

struct lua_State;

namespace runner::lua::losses {

// (logits (N, C), labels (N) [, {reduction, ignore_index, label_smoothing, weight}]); the mean is torch's, by weight.
int cross_entropy(lua_State* state);

// (prediction, target of the same shape [, {reduction}])
int mse(lua_State* state);
int l1(lua_State* state);
int huber(lua_State* state);  // also {delta}
int bce_with_logits(lua_State* state);

}  // namespace runner::lua::losses
