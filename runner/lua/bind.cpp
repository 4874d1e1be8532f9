#include "runner/lua/bind.h"

#include <algorithm>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/runtime.h"

namespace runner::lua {
namespace {

constexpr const char* kNames = "runner.names";  // registry key: table of names by C function

// Pushes the table of names.
void push_names(lua_State* state) {
  if (lua_getfield(state, LUA_REGISTRYINDEX, kNames) == LUA_TTABLE) return;
  lua_pop(state, 1);
  lua_newtable(state);
  lua_pushvalue(state, -1);
  lua_setfield(state, LUA_REGISTRYINDEX, kNames);
}

// Returns the number of arguments registered for a function, or kAnyNumber.
int most_registered(lua_State* state, int (*function)(lua_State*)) {
  const bool is_limited = lua_rawgetp(state, LUA_REGISTRYINDEX, reinterpret_cast<const void*>(function)) != LUA_TNIL;
  const int most = is_limited ? static_cast<int>(lua_tointeger(state, -1)) : kAnyNumber;
  lua_pop(state, 1);
  return most;
}

}  // namespace

std::string called_as(lua_State* state) {
  lua_Debug frame{};
  if (lua_getstack(state, 0, &frame) == 0) return "?";
  lua_getinfo(state, "nf", &frame);
  push_names(state);
  lua_pushcfunction(state, lua_tocfunction(state, -2));
  lua_rawget(state, -2);
  const char* const known = lua_tostring(state, -1);
  const std::string_view shown = frame.name != nullptr ? frame.name : "?";  // Lua shows "?" for calls like t[k](x) too
  std::string name(shown == "?" && known != nullptr ? known : shown);
  lua_pop(state, 3);
  return name;
}

void name_function(lua_State* state, const char* name, int (*function)(lua_State*), int most) {
  push_names(state);
  lua_pushcfunction(state, function);
  lua_pushstring(state, name);
  lua_rawset(state, -3);
  lua_pop(state, 1);
  if (most == kAnyNumber) return;
  // A function can have several names, such as transpose and t.
  lua_pushinteger(state, std::max<lua_Integer>(most, most_registered(state, function)));
  lua_rawsetp(state, LUA_REGISTRYINDEX, reinterpret_cast<const void*>(function));
}

int most_arguments(std::string_view usage) {
  const size_t open = usage.find_first_of("({");
  if (open == std::string_view::npos) return usage.starts_with('-') ? 1 : 2;  // an operator
  const std::string_view object = usage.substr(0, usage.find_first_of(".:"));
  const int self = usage.substr(object.size()).starts_with(':') ? 1 : 0;
  if (usage[open] == '{') return self + 1;  // f{…} passes one table
  int commas = 0, depth = 0;
  bool is_empty = true;
  for (size_t at = open + 1; at < usage.size() && usage[at] != ')'; ++at) {
    const char letter = usage[at];
    depth += (letter == '{') - (letter == '}');
    if (depth > 0) continue;
    if (usage.substr(at).starts_with("...")) return kAnyNumber;
    commas += letter == ',';
    is_empty = false;
  }
  return is_empty ? self : self + 1 + commas;
}

void check_argument_count(lua_State* state, int (*function)(lua_State*)) {
  const int most = most_registered(state, function);
  if (most != kAnyNumber) check_argument_count(state, most);
}

void check_argument_count(lua_State* state, int most) {
  for (int i = most + 1; i <= lua_gettop(state); ++i) {
    if (lua_isnil(state, i)) continue;
    const int count = most - is_method_call(state);
    bad_argument(state, i,
                 count == 0 ? "no arguments" : fmt::format("at most {} argument{}", count, count == 1 ? "" : "s"));
  }
}

SourceMark line_of_caller(lua_State* state) {
  lua_Debug frame{};
  for (int level = 1; lua_getstack(state, level, &frame) != 0; ++level) {
    lua_getinfo(state, "Sl", &frame);
    if (frame.currentline > 0) return {frame.source + 1, frame.currentline, 0};
  }
  return {};
}

SourceMark place_of_function(lua_State* state) {
  lua_Debug function{};
  lua_getinfo(state, ">S", &function);
  if (function.linedefined <= 0) return {};
  return {function.source + 1, function.linedefined, 0};
}

void count_call(lua_State* state) {
  constexpr int64_t kInstructions = 20;
  Runtime::of(state).spend(state, kInstructions);
}

EngineTime::~EngineTime() {
  const double time = coarse_seconds() - begin_;
  if (time > 0) Runtime::of(state_).meter().leave_out(time);
}

int raise_exception(lua_State* state, std::exception_ptr exception, Raise raise) {
  std::string text;
  try {
    std::rethrow_exception(exception);
  } catch (const Error& found) {
    Error error = found;
    if (std::string message = shortened(error.message()); message != error.message()) {
      error = Error(error.kind(), std::move(message), error.where());
      exception = std::make_exception_ptr(error);
    }
    if (is_run_error(error)) raise = Raise::kEndsRun;
    const SourceMark where = error.where().known() ? error.where() : line_of_caller(state);
    text = where.known() ? fmt::format("{}: {}", where.to_string(), error.message()) : error.message();
  } catch (const std::exception& error) {
    raise = Raise::kEndsRun;
    text = error.what();
  }
  Runtime::of(state).keep_raised(state, {exception, text}, raise == Raise::kEndsRun);
  lua_pushlstring(state, text.data(), text.size());
  return lua_error(state);
}

void set_function(lua_State* state, const char* name, int (*function)(lua_State*), int most) {
  name_function(state, name, function, most);
  lua_pushcfunction(state, function);
  lua_setfield(state, -2, name);
}

}  // namespace runner::lua
