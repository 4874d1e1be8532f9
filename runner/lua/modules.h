// Modules of `nn` in Lua: nn.Linear(…), nn.Sequential{…}, and modules written in Lua.
#pragma once

#include "runner/model/module.h"

struct lua_State;

namespace runner::lua {

// Registers the metatable of modules.
void open_modules(lua_State* state);

// Pushes the table that `require "nn"` returns: modules, tensor functions, and `functional`, a table of the functions.
int open_nn(lua_State* state);

// Returns the result of the hook's `model` at the top of the stack: a module, or a table of named modules. Throws
// Error(kRun) for anything else.
nn::ModulePtr model_at_top(lua_State* state);
bool is_module(lua_State* state, int index);
// Returns the module at `index`. `what`: its name in messages. Throws Error(kRun) for anything else.
nn::ModulePtr module_value(lua_State* state, int index, std::string_view what);
void push_module(lua_State* state, nn::ModulePtr module);
// Pushes the result of a constructor, made at the line of its caller. Returns 1, the number of results.
int push_made(lua_State* state, nn::ModulePtr module);

}  // namespace runner::lua
