#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/hook_table.h"
#include "runner/lua/runtime.h"
#include "schema/base/suggest.h"

namespace runner::lua {
namespace {

constexpr std::string_view kTrackerFunctions[] = {"start", "log", "finish"};

// Reports functions of the table at the top of the stack with unknown names, which would never be called. Returns
// whether there are any.
bool check_names(lua_State* state, lua_Integer number, const ReportFault& report) {
  bool any = false;
  lua_pushnil(state);
  while (lua_next(state, -2) != 0) {
    const bool unknown = lua_type(state, -2) == LUA_TSTRING && lua_isfunction(state, -1) &&
                         std::ranges::find(kTrackerFunctions, lua_tostring(state, -2)) == std::end(kTrackerFunctions);
    const std::string name = unknown ? lua_tostring(state, -2) : "";
    const SourceMark defined = unknown ? place_of_function(state) : (lua_pop(state, 1), SourceMark());
    if (!unknown) continue;
    const std::vector<std::string> known(std::begin(kTrackerFunctions), std::end(kTrackerFunctions));
    const std::string hint =
        schema::did_you_mean(name, known, "a tracker has start, log and finish; make other functions local");
    report(fmt::format("tracker {}: unknown function '{}'; {}", number, name, hint), defined);
    any = true;
  }
  return any;
}

void check_tracker(lua_State* state, lua_Integer number, const ReportFault& report) {
  if (!lua_istable(state, -1))
    return report(
        fmt::format("tracker {} is {}, expected a table with start, log or finish", number, type_name(state, -1)), {});
  bool has_any = check_names(state, number, report);
  for (const std::string_view name : kTrackerFunctions) {
    if (!push_method(state, -1, name.data())) continue;
    if (!lua_isfunction(state, -1))
      report(fmt::format("{} of tracker {} is {}, expected a function", name, number, type_name(state, -1)), {});
    has_any = true;
    lua_pop(state, 1);
  }
  if (!has_any) report(fmt::format("tracker {} needs at least one of the functions start, log and finish", number), {});
}

// Calls a function of a tracker with the arguments above it on the stack.
void call_tracker(Runtime& runtime, int arguments) {
  lua_State* const state = runtime.state();
  lua_pushvalue(state, -arguments - 1);
  const SourceMark defined = place_of_function(state);
  try {
    runtime.call(state, arguments, 0);
  } catch (const Error& error) {
    throw Error(error).locate(defined);
  }
}

}  // namespace

void check_trackers(lua_State* state, const ReportFault& report) {
  if (!lua_istable(state, -1))
    return report(fmt::format("trackers is {}, expected a list of tables", type_name(state, -1)), {});
  const auto count = static_cast<lua_Integer>(lua_rawlen(state, -1));
  if (push_stray_key(state, -1, count)) {
    report(fmt::format("trackers has the key '{}', expected a list of tables: trackers = {{{{log = function(self, acc, "
                       "values, step) … end}}}}",
                       text_of(state, -1)),
           {});
    lua_pop(state, 1);
  }
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(state, -1, i);
    check_tracker(state, i, report);
    lua_pop(state, 1);
  }
}

void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push) {
  lua_State* const state = runtime.state();
  const int list = lua_gettop(state);
  const auto count = static_cast<lua_Integer>(lua_rawlen(state, list));
  std::optional<Error> failed;
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(state, list, i);
    try {
      if (push_method(state, -1, name)) {
        lua_pushvalue(state, -2);
        push();
        call_tracker(runtime, arguments + 1);
      }
    } catch (const Error& error) {
      if (is_run_error(error)) throw;
      failed = failed ? Error(*failed).note(fmt::format("tracker {} also failed: {}", i, error.what())) : error;
    }
    lua_settop(state, list);
  }
  lua_pop(state, 1);
  if (failed) throw Error(*failed);
}

}  // namespace runner::lua
