// The entry `metrics` of a hook: metrics of a whole evaluation that are not means over its samples, such as an AUC.
#pragma once

#include <map>
#include <string>

#include "runner/lua/hook_table.h"
#include "runner/train/engine/hooks.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// Reports all faults in the value at the top of the stack, which must be a table of named functions without names of
// built-in metrics. Leaves it there.
void check_whole_metrics(lua_State* state, const ReportFault& report);

// Pops such a table from the top of the stack and calls each function, in the order of the names. Each call gets its
// own Lua lists of the set, so that a function cannot change those of the next one. Returns the values by name. Throws
// Error(kRun) with the line of the hook.
std::map<std::string, double> whole_metrics(Runtime& runtime, const train::EvaluatedSet& set);

}  // namespace runner::lua
