// Lua's pattern functions with a budget: string.find, match, gmatch and gsub of Lua 5.4, results and error texts alike,
// except that a call that takes too many steps ends with an error.
//
// Lua's own take time exponential in the pattern, and no debug hook fires inside them: a sandbox could not end them.
// Letters, digits and so on are ASCII whatever the locale.  As all of Lua, a state is used by one thread at a time.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// After so many steps in a call, the state's count hook, if it has one, is called as if instructions had been executed,
// so that a limit of time holds in here as well.  Its lua_Debug is that of the calling function.  It may raise an
// error.
inline constexpr int64_t kPatternStepsPerHook = 65'536;

// Replaces the four functions in the global table `string`, which must be there; methods of strings follow.  `budget`:
// steps of one call (of gmatch: of one match); a step is an item of a pattern tried on a byte, one to three
// nanoseconds. Raises Lua errors (out of memory), so it is called in protected mode where those may happen.
void replace_pattern_functions(lua_State* state, int64_t budget);

}  // namespace runner::lua
