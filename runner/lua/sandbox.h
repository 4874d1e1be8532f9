// The global environment of hooks: Lua's own library without the functions that access the system, can hang, or differ
// between runs.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// Fills the globals of a new state, which must belong to a Runtime. `pattern_steps`: budget of string.find and the
// other pattern functions.
void open_sandbox(lua_State* state, int64_t pattern_steps);

}  // namespace runner::lua
