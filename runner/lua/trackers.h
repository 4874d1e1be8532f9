// Trackers of a hook: tables whose functions are called with the points of a run as they are recorded.
//
// A tracker has at least one of start(self, acc), log(self, acc, values, step) and finish(self, acc, status), in the
// table or through its metatable. It may have any other fields that are not functions.
#pragma once

#include <functional>
#include <string>

#include "runner/lua/hook_table.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// Reports all faults in the value at the top of the stack, which must be a list of trackers. Leaves it there.
void check_trackers(lua_State* state, const ReportFault& report);

// Calls function `name` of each tracker that has it, with the tracker and the `arguments` values pushed by `push`. Pops
// the list of trackers from the top of the stack. Calls all trackers even if one fails; then throws the first
// Error(kRun) with its line.
void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push);

}  // namespace runner::lua
