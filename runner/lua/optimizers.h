// Optimizers in Lua: `require "optim"`, and what the entry `optimizers` of a hook returns.
#pragma once

#include <span>

#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/nn/models.h"
#include "runner/train/step/optimizers.h"

namespace runner::lua {

struct OptimizerFunction {
  const char* name;
  int (*function)(lua_State*);
  const char* usage;
  const char* text;
};
std::span<const OptimizerFunction> optimizer_functions();

// Registers the metatable of optimizers.
void open_optimizers(lua_State* state);

// The table that `require "optim"` gives.
int open_optim(lua_State* state);

// What the hook `optimizers` returned, at the top of the stack, which is popped: an optimizer, or a table of them by
// name.  `recipe` has the schedule, and the rate of optimizers without one.  Throws Error(kRun) where it is anything
// else, or a parameter of `model` has two.
train::Optimizers take_optimizers(lua_State* state, const nn::Model& model, const schema::Recipe& recipe);

}  // namespace runner::lua
