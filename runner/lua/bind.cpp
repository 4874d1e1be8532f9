#include "runner/lua/bind.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/runtime.h"
#include "schema/json.h"
#include "schema/source_text.h"
#include "schema/suggest.h"

namespace runner::lua {
namespace {

constexpr const char* kNames = "runner.names";  // registry: names by C function

// Pushes that table.
void push_names(lua_State* state) {
  if (lua_getfield(state, LUA_REGISTRYINDEX, kNames) == LUA_TTABLE) return;
  lua_pop(state, 1);
  lua_newtable(state);
  lua_pushvalue(state, -1);
  lua_setfield(state, LUA_REGISTRYINDEX, kNames);
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
  const std::string_view shown = frame.name != nullptr ? frame.name : "?";  // Lua says so of t[k](x), too
  std::string name(shown == "?" && known != nullptr ? known : shown);
  lua_pop(state, 3);
  return name;
}

void name_function(lua_State* state, const char* name, int (*function)(lua_State*)) {
  push_names(state);
  lua_pushcfunction(state, function);
  lua_pushstring(state, name);
  lua_rawset(state, -3);
  lua_pop(state, 1);
}

SourceMark line_of_caller(lua_State* state) {
  lua_Debug frame{};
  for (int level = 1; lua_getstack(state, level, &frame) != 0; ++level) {
    lua_getinfo(state, "Sl", &frame);
    if (frame.currentline > 0) return {frame.source + 1, frame.currentline, 0};
  }
  return {};
}

void bad_argument(lua_State* state, int index, std::string_view wanted) {
  fail(ErrorKind::kRun, "{}: argument {} is {}, expected {}", called_as(state), index, type_name(state, index), wanted);
}

void bad_option(lua_State* state, std::string_view option, std::string_view wanted) {
  fail(ErrorKind::kRun, "{}: {} is {}, expected {}", called_as(state), option, type_name(state, -1), wanted);
}

std::string_view key_argument(lua_State* state, std::string_view what) {
  if (lua_type(state, 2) == LUA_TSTRING) return text_argument(state, 2);
  fail(ErrorKind::kRun, "{} has no entry [{}]; what it has goes by names", what, text_of(state, 2));
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

int raise_exception(lua_State* state, const std::exception_ptr& exception, Raise raise) {
  std::string text;
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    if (is_of_the_run(error)) raise = Raise::kEndsRun;
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

std::string_view type_name(lua_State* state, int index) {
  const int type = luaL_getmetafield(state, index, "__name");
  if (type != LUA_TNIL) {
    const char* const name = type == LUA_TSTRING ? lua_tostring(state, -1) : nullptr;  // the metatable keeps it
    lua_pop(state, 1);
    if (name != nullptr) return name;
  }
  return lua_isnone(state, index) ? "missing" : luaL_typename(state, index);
}

void push_text_of(lua_State* state, int index) {
  const int type = lua_type(state, index);
  const bool is_plain = type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
  const bool has_text = luaL_getmetafield(state, index, "__tostring") != LUA_TNIL;
  if (has_text) lua_pop(state, 1);
  if (is_plain || has_text) {
    luaL_tolstring(state, index, nullptr);
    return;
  }
  const std::string_view name = type_name(state, index);
  lua_pushlstring(state, name.data(), name.size());
}

std::string text_of(lua_State* state, int index) {
  push_text_of(state, index);
  const std::string text(text_argument(state, -1));
  lua_pop(state, 1);
  return text;
}

std::string shown(double number) {
  return std::isnan(number) ? "NaN" : fmt::to_string(number);
}

double number_argument(lua_State* state, int index) {
  if (lua_type(state, index) != LUA_TNUMBER) bad_argument(state, index, "a number");
  return lua_tonumber(state, index);
}

int64_t integer_argument(lua_State* state, int index) {
  int exact = 0;
  const lua_Integer value = lua_tointegerx(state, index, &exact);
  if (exact == 0 || lua_type(state, index) != LUA_TNUMBER) bad_argument(state, index, "an integer");
  return value;
}

bool boolean_argument(lua_State* state, int index, bool otherwise) {
  if (lua_isnoneornil(state, index)) return otherwise;
  if (!lua_isboolean(state, index)) bad_argument(state, index, "true or false");
  return lua_toboolean(state, index) != 0;
}

std::string_view text_argument(lua_State* state, int index) {
  if (lua_type(state, index) != LUA_TSTRING) bad_argument(state, index, "a string");
  size_t size = 0;
  const char* text = lua_tolstring(state, index, &size);
  return {text, size};
}

bool push_field(lua_State* state, int index, const char* name) {
  index = lua_absindex(state, index);
  lua_pushstring(state, name);
  if (lua_rawget(state, index) != LUA_TNIL) return true;
  lua_pop(state, 1);
  return false;
}

bool push_method(lua_State* state, int index, const char* name) {
  constexpr int kMostTables = 100;  // behind each other, perhaps in a circle
  lua_pushvalue(state, index);
  for (int i = 0; i < kMostTables && lua_istable(state, -1); ++i) {
    const bool found = push_field(state, -1, name);
    if (!found && luaL_getmetafield(state, -1, "__index") == LUA_TNIL) break;
    lua_remove(state, -2);
    if (found) return true;
  }
  lua_pop(state, 1);
  return false;
}

std::vector<std::string> text_keys(lua_State* state, int index) {
  index = lua_absindex(state, index);
  std::vector<std::string> keys;
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    if (lua_type(state, -1) == LUA_TSTRING) keys.emplace_back(text_argument(state, -1));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void check_name(const std::string& name, std::string_view what, std::string_view thing) {
  constexpr size_t kLongest = 200;  // bytes
  const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c < ' ' || c == 0x7f; });
  if (!name.empty() && name.size() <= kLongest && plain && schema::is_utf8(name)) return;
  std::string shown = json::compact(name);
  if (name.size() > kLongest) shown = fmt::format("a text of {} bytes", name.size());
  fail(ErrorKind::kRun, "{}: {} cannot name {}: a name is 1 to {} bytes of UTF-8 on one line", what, shown, thing,
       kLongest);
}

std::vector<std::string> metric_keys(lua_State* state, int index, std::string_view what) {
  index = lua_absindex(state, index);
  lua_pushnil(state);
  for (; lua_next(state, index) != 0; lua_pop(state, 1))
    RUN_CHECK(lua_type(state, -2) == LUA_TSTRING, ErrorKind::kRun,
              "{}: the name of a metric is a {}, expected a text: {{name = value}}", what, type_name(state, -2));
  std::vector<std::string> keys = text_keys(state, index);
  for (const std::string& key : keys) check_name(key, what, "a metric");
  return keys;
}

bool push_stray_key(lua_State* state, int index, int64_t size) {
  index = lua_absindex(state, index);
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    const bool in_list = lua_isinteger(state, -1) && lua_tointeger(state, -1) >= 1 && lua_tointeger(state, -1) <= size;
    if (in_list) continue;
    lua_pushvalue(state, -1);  // messages make a text of it
    lua_remove(state, -2);
    return true;
  }
  return false;
}

void check_keys(lua_State* state, int index, std::string_view what, std::span<const std::string_view> known) {
  index = lua_absindex(state, index);
  lua_pushnil(state);
  while (lua_next(state, index) != 0) {
    lua_pop(state, 1);
    if (lua_type(state, -1) != LUA_TSTRING) {
      lua_pushvalue(state, -1);
      const std::string key = lua_tostring(state, -1) != nullptr ? lua_tostring(state, -1) : "?";
      fail(ErrorKind::kRun, "{}: unknown entry [{}]", what, key);
    }
    const std::string key = lua_tostring(state, -1);
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    fail(ErrorKind::kRun, "{}: unknown entry '{}'; {}", what, key,
         schema::did_you_mean(key, names, fmt::format("it knows {}", fmt::join(names, ", "))));
  }
}

void set_function(lua_State* state, const char* name, int (*function)(lua_State*)) {
  name_function(state, name, function);
  lua_pushcfunction(state, function);
  lua_setfield(state, -2, name);
}

int refuse_entry(lua_State* state) {
  fail(ErrorKind::kRun, "{}.{} cannot be set; keep values of your own in a local table",
       lua_tostring(state, lua_upvalueindex(1)), text_of(state, 2));
}

namespace {

constexpr char kSealed = 0;  // its address is a key in the metatables that seal() makes

// __len; upvalue 1: the library.
int length_of_library(lua_State* state) {
  lua_pushinteger(state, static_cast<lua_Integer>(lua_rawlen(state, lua_upvalueindex(1))));
  return 1;
}

// __pairs; upvalue 1: the library.
int pairs_of_library(lua_State* state) {
  lua_getglobal(state, "pairs");
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_call(state, 1, 3);
  return 3;
}

int unknown_name(lua_State* state) {
  const std::string name = text_of(state, 2);
  const std::vector<std::string> names = text_keys(state, 1);
  fail(ErrorKind::kRun, "{} has no '{}'; {}", type_name(state, 1), name,
       schema::did_you_mean(name, names, fmt::format("it has {}", fmt::join(names, ", "))));
}

}  // namespace

void refuse_unknown(lua_State* state, const char* name, bool closed) {
  if (luaL_newmetatable(state, name) != 0) {
    set_function(state, "__index", bound<unknown_name>);
    if (closed) set_function(state, "__newindex", bound<unknown_name>);
    protect_metatable(state);
  }
  lua_setmetatable(state, -2);
}

void seal(lua_State* state, const char* name) {
  lua_newtable(state);
  lua_createtable(state, 0, 6);
  lua_pushboolean(state, 1);
  lua_rawsetp(state, -2, &kSealed);
  lua_pushvalue(state, -3);
  lua_setfield(state, -2, "__index");
  lua_pushvalue(state, -3);
  lua_pushcclosure(state, length_of_library, 1);
  lua_setfield(state, -2, "__len");
  lua_pushvalue(state, -3);
  lua_pushcclosure(state, bound<pairs_of_library>, 1);
  lua_setfield(state, -2, "__pairs");
  lua_pushstring(state, name);
  lua_pushcclosure(state, bound<refuse_entry>, 1);
  lua_setfield(state, -2, "__newindex");
  protect_metatable(state);
  lua_setmetatable(state, -2);
  lua_replace(state, -2);
}

void seal_all(lua_State* state, const std::string& name) {
  luaL_checkstack(state, 10, "tables lie too deep in each other");
  const int table = lua_gettop(state);
  lua_pushnil(state);
  while (lua_next(state, table) != 0) {
    if (lua_istable(state, -1)) {
      seal_all(state, fmt::format("{}.{}", name, text_of(state, -2)));
      lua_pushvalue(state, -2);
      lua_insert(state, -2);
      lua_rawset(state, table);  // of a field that is there: lua_next may go on
    } else {
      lua_pop(state, 1);
    }
  }
  seal(state, name.c_str());
}

void unseal(lua_State* state, int index) {
  index = lua_absindex(state, index);
  if (lua_getmetatable(state, index) == 0) return;
  const bool is_sealed = lua_rawgetp(state, -1, &kSealed) != LUA_TNIL;
  lua_pop(state, 1);
  if (is_sealed) {
    lua_getfield(state, -1, "__index");
    lua_replace(state, index);
  }
  lua_pop(state, 1);
}

void protect_metatable(lua_State* state) {
  lua_pushboolean(state, 0);
  lua_setfield(state, -2, "__metatable");
}

}  // namespace runner::lua
