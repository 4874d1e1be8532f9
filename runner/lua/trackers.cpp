#include "runner/lua/trackers.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/runtime.h"
#include "schema/suggest.h"

namespace runner::lua {
namespace {

constexpr std::string_view kFunctions[] = {"start", "log", "finish"};

// Function names of the tracker's own at the top of the stack that nobody would call.
void check_names(lua_State* state, lua_Integer number) {
  lua_pushnil(state);
  while (lua_next(state, -2) != 0) {
    const bool unknown = lua_type(state, -2) == LUA_TSTRING && lua_isfunction(state, -1) &&
                         std::ranges::find(kFunctions, lua_tostring(state, -2)) == std::end(kFunctions);
    if (!unknown) {
      lua_pop(state, 1);
      continue;
    }
    const std::string name = lua_tostring(state, -2);
    const std::vector<std::string> known(std::begin(kFunctions), std::end(kFunctions));
    throw Error(ErrorKind::kRecipe,
                fmt::format("tracker {}: unknown function '{}'; {}", number, name,
                            schema::did_you_mean(name, known,
                                                 "a tracker has start, log and finish; make helpers local functions")),
                place_of_function(state));
  }
}

void check_tracker(lua_State* state, lua_Integer number) {
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRecipe, "tracker {} is {}, expected a table with start, log or finish",
            number, type_name(state, -1));
  check_names(state, number);
  bool has_any = false;
  for (const std::string_view name : kFunctions) {
    if (!push_method(state, -1, name.data())) continue;
    RUN_CHECK(lua_isfunction(state, -1), ErrorKind::kRecipe, "{} of tracker {} is {}, expected a function", name,
              number, type_name(state, -1));
    has_any = true;
    lua_pop(state, 1);
  }
  RUN_CHECK(has_any, ErrorKind::kRecipe,
            "tracker {} has none of the functions start, log and finish; nothing would call it", number);
}

// One function of a tracker, its arguments above it.
void call(Runtime& runtime, int arguments) {
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

void check_trackers(lua_State* state) {
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRecipe, "trackers is {}, expected a list of tables",
            type_name(state, -1));
  const auto count = static_cast<lua_Integer>(lua_rawlen(state, -1));
  if (push_stray_key(state, -1, count))
    fail(ErrorKind::kRecipe,
         "trackers has the key '{}', expected a list of tables: trackers = {{{{log = function(self, acc, "
         "values, step) … end}}}}",
         text_of(state, -1));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(state, -1, i);
    check_tracker(state, i);
    lua_pop(state, 1);
  }
}

void call_trackers(Runtime& runtime, const char* name, int arguments, const std::function<void()>& push) {
  lua_State* const state = runtime.state();
  const auto count = static_cast<lua_Integer>(lua_rawlen(state, -1));
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(state, -1, i);
    if (push_method(state, -1, name)) {
      lua_pushvalue(state, -2);
      push();
      call(runtime, arguments + 1);
    }
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
}

}  // namespace runner::lua
