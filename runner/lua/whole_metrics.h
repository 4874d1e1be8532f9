// `metrics` of a hook: figures of a whole evaluation that are no means over its samples, such as an AUC.
#pragma once

#include <map>
#include <string>

#include "runner/train/hooks.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// Throws Error(kRecipe) where the value at the top of the stack is no table of functions by name, or a name is that of
// a built-in metric.
void check_whole_metrics(lua_State* state);

// Takes such a table off the top of the stack and calls each function, in the order of the names, with the set as Lua
// lists made for that call: what one does to them is not seen by the next.  Values by name.  Throws Error(kRun) with
// the line of the hook.
std::map<std::string, double> whole_metrics(Runtime& runtime, const train::EvaluatedSet& set);

}  // namespace runner::lua
