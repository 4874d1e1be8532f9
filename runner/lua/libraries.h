// The libraries of a Lua state. Every state with a hook file has all of them, so that a file which runs in one state
// runs in all.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

class Runtime;

// Fills the globals of a new state, which must belong to a Runtime, with Lua's own library without the functions that
// access the system, can hang, or differ between runs. `pattern_steps`: budget of string.find and the other pattern
// functions.
void open_sandbox(lua_State* state, int64_t pattern_steps);

// Registers tensors, modules, optimizers, and the built-in modules of `require`.
void open_libraries(Runtime& runtime);

}  // namespace runner::lua
