// Optimizers in Lua: `require "optim"` and the result of the hook's entry `optimizers`.
#pragma once

#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/model/models.h"
#include "runner/train/step/optimizers.h"

namespace runner::lua {

// Registers the metatable of optimizers.
void open_optimizers(lua_State* state);

// Pushes the table that `require "optim"` returns.
int open_optim(lua_State* state);

// Takes the result of the hook's `optimizers` at the top of the stack and pops it: an optimizer, or a table of named
// optimizers. `recipe`: has the schedule, and the learning rate of optimizers that set none. Throws Error(kRun) for any
// other value, or if a parameter of `model` is in two optimizers.
train::Optimizers take_optimizers(lua_State* state, const nn::Model& model, const schema::Recipe& recipe);

}  // namespace runner::lua
