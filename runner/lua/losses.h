// Losses of `nn` in Lua: functions of predictions, targets and a table of options. tensor.cpp has the table of them.
//
// They compute in f32 for any precision of the model, and return the mean unless `reduction` is given.
#pragma once

struct lua_State;

namespace runner::lua::losses {

// (logits (N, C), labels (N) [, {reduction, ignore_index, label_smoothing, weight}]). With class weights, the mean is
// weighted as in torch.
int cross_entropy(lua_State* state);

// (prediction, target of the same shape [, {reduction}])
int mse(lua_State* state);
int l1(lua_State* state);
int huber(lua_State* state);  // also {delta}
int bce_with_logits(lua_State* state);

}  // namespace runner::lua::losses
