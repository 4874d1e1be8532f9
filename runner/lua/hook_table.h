// The table that a hook file returns: its entries and their validation, and the calls of its trackers and metrics.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "runner/lua/runtime.h"
#include "runner/train/loop/hooks.h"

namespace runner::lua {

// Called for each fault in an entry. `where`: line of the fault, or unknown if it is not in a function.
using ReportFault = std::function<void(const std::string& message, const SourceMark& where)>;

// All entry names: first in the order of enum HookEntry, then of enum HookEvent. Each is NUL-terminated.
std::span<const std::string_view> hook_entries();

constexpr size_t place_of(train::HookEntry entry) {
  return static_cast<size_t>(entry);
}
constexpr size_t place_of(train::HookEvent event) {
  return place_of(train::HookEntry::kCount) + static_cast<size_t>(event);
}

// Checks the value at the top of the stack, which `file` returned. Throws schema::RecipeError with all faults and their
// lines as far as known, or Error(kRecipe) if the value is not a table.
void check_hook_table(lua_State* state, const SourceFile& file);

// ---- trackers -------------------------------------------------------------------------------------------------------
//
// Tables whose functions are called with the points of a run as they are recorded. A tracker has at least one of
// start(self, acc), log(self, acc, values, step) and finish(self, acc, status), in the table or through its metatable.
// It may have any other fields that are not functions.

// Reports all faults in the value at the top of the stack, which must be a list of trackers. Leaves it there.
void check_trackers(lua_State* state, const ReportFault& report);

// Calls function `name` of each tracker that has it, with the tracker and the `arguments` values pushed by `push`. Pops
// the list of trackers from the top of the stack. Calls all trackers even if one fails; then throws the first
// Error(kRun) with its line.
void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push);

// ---- metrics of a whole evaluation ----------------------------------------------------------------------------------
//
// The entry `metrics`: metrics that are not means over samples, such as an AUC.

// Reports all faults in the value at the top of the stack, which must be a table of named functions without names of
// built-in metrics. Leaves it there.
void check_whole_metrics(lua_State* state, const ReportFault& report);

// Pops such a table from the top of the stack and calls each function, in the order of the names. Each call gets its
// own Lua lists of the set, so that a function cannot change those of the next one. Returns the values by name. Throws
// Error(kRun) with the line of the hook.
std::map<std::string, double> whole_metrics(Runtime& runtime, const train::EvaluatedSet& set);

// ---- modes ----------------------------------------------------------------------------------------------------------
//
// The entry `modes`: whether larger values of a metric are better, "max" or "min" by name. The name is that of the
// metric after its last slash.

// Reports all faults in the value at the top of the stack. Leaves it there.
void check_modes(lua_State* state, const ReportFault& report);
// Pops such a table from the top of the stack. Returns whether larger values are better, by name.
std::map<std::string, bool, std::less<>> take_modes(lua_State* state);

}  // namespace runner::lua
