// Trackers of a hook: tables whose functions hear of the points of a run as they are made.
//
// A tracker has one or more of start(self, acc), log(self, acc, values, step) and finish(self, acc, status), its own or
// by a metatable.  Everything else in it that is no function is its own.
#pragma once

#include <functional>
#include <string>

#include "runner/lua/hook_table.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// Reports all that keeps the value at the top of the stack, which stays there, from being a list of trackers.
void check_trackers(lua_State* state, const ReportFault& report);

// Calls function `name` of each tracker that has it, with the tracker and `arguments` values that `push` pushes.  The
// list is at the top of the stack, which is popped.  Throws the first Error(kRun), with the line, when all have heard.
void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push);

}  // namespace runner::lua
