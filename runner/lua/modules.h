// Modules of nn in Lua: nn.Linear(…), nn.Sequential{…}, and modules written in Lua.
#pragma once

#include <span>

#include "runner/nn/module.h"

struct lua_State;

namespace runner::lua {

struct ModuleFunction {
  const char* name;
  int (*function)(lua_State*);
  const char* usage;
  const char* text;
};
std::span<const ModuleFunction> module_functions();

// Registers the metatable of modules.
void open_modules(lua_State* state);

// The table that `require "nn"` gives: modules and functions of tensors.
int open_nn(lua_State* state);

// What the hook `model` returned, at the top of the stack: a module, or a table of modules by name.  Throws Error(kRun)
// for anything else.
nn::ModulePtr model_at_top(lua_State* state);
bool is_module(lua_State* state, int index);
// The module at `index`, which `what` names.  Throws Error(kRun) for anything else.
nn::ModulePtr module_value(lua_State* state, int index, std::string_view what);
// Pushes a module.
void push_module(lua_State* state, nn::ModulePtr module);

}  // namespace runner::lua
