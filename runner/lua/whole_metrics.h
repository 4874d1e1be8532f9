// `metrics` of a hook: figures of a whole evaluation that are no means over its samples, such as an AUC.
#pragma once

#include <map>
#include <string>

#include "runner/lua/hook_table.h"
#include "runner/train/step/hooks.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// Reports all that keeps the value at the top of the stack, which stays there, from being a table of functions by name,
// of which no name is that of a built-in metric.
void check_whole_metrics(lua_State* state, const ReportFault& report);

// Takes such a table off the top of the stack and calls each function, in the order of the names, with the set as Lua
// lists made for that call: what one does to them is not seen by the next.  Values by name.  Throws Error(kRun) with
// the line of the hook.
std::map<std::string, double> whole_metrics(Runtime& runtime, const train::EvaluatedSet& set);

}  // namespace runner::lua
