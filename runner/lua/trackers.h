// Trackers of a hook: tables whose functions hear of the points of a run as they are made.
//
// A tracker has one or more of start(self, acc), log(self, acc, values, step) and finish(self, acc, status), its own or
// by a metatable.  Everything else in it that is no function is its own.
#pragma once

#include <functional>
#include <string>

struct lua_State;

namespace runner::lua {

class Runtime;

// The value at the top of the stack, which stays there, is a list of trackers.  Throws Error(kRecipe).
void check_trackers(lua_State* state);

// Calls function `name` of each tracker that has it, with the tracker and `arguments` values that `push` pushes.  The
// list is at the top of the stack, which is popped.  Throws Error(kRun) with the line.
void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push);

}  // namespace runner::lua
