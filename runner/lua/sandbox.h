// What a hook finds under its global names: Lua's own library without what reaches out, hangs or differs from run to
// run.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// Fills the globals of a new state, which must belong to a Runtime.  `pattern_steps`: the budget of string.find and its
// like.
void open_sandbox(lua_State* state, int64_t pattern_steps);

}  // namespace runner::lua
