// Pattern functions with a budget: string.find, match, gmatch and gsub with the results and error messages of Lua 5.4.
// A call that takes too many steps raises an error.
//
// Lua's own functions can take time exponential in the pattern without calling a debug hook, so a sandbox could not
// stop them. Character classes are ASCII in any locale. Not thread-safe, like any Lua state.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// Steps of a call between two calls of the state's count hook, if it has one, so that a time limit also holds in
// pattern functions. The hook's lua_Debug is that of the calling function. The hook may raise an error.
inline constexpr int64_t kPatternStepsPerHook = 65'536;

// Replaces the four functions in the global table `string`, which must exist, and thus the methods of strings.
// `budget`: maximum steps per call; for gmatch, per match. A step tests one pattern item on one byte and takes one to
// three nanoseconds. Raises Lua errors if memory is exhausted; call in protected mode.
void replace_pattern_functions(lua_State* state, int64_t budget);

}  // namespace runner::lua
