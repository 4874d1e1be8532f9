#include "runner/lua/registered.h"

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/runtime.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

constexpr const char* kObjects = "runner.registered";  // registry key: list of the registered objects
// Registry key: contents of the restored checkpoint, also for objects registered later.
constexpr const char* kRestored = "runner.restored";

// Pushes a table of the registry; creates it if necessary.
void push_list(lua_State* state, const char* name) {
  if (lua_getfield(state, LUA_REGISTRYINDEX, name) == LUA_TTABLE) return;
  lua_pop(state, 1);
  lua_newtable(state);
  lua_pushvalue(state, -1);
  lua_setfield(state, LUA_REGISTRYINDEX, name);
}

lua_Integer length_of(lua_State* state, const char* name) {
  push_list(state, name);
  const auto length = static_cast<lua_Integer>(lua_rawlen(state, -1));
  lua_pop(state, 1);
  return length;
}

// Replaces the contents of the table at `to` with those of the table at `from`.
void replace_contents(lua_State* state, int to, int from) {
  lua_pushnil(state);
  while (lua_next(state, to) != 0) {
    lua_pop(state, 1);
    lua_pushvalue(state, -1);
    lua_pushnil(state);
    lua_rawset(state, to);
  }
  lua_pushnil(state);
  while (lua_next(state, from) != 0) {
    lua_pushvalue(state, -2);
    lua_insert(state, -2);
    lua_rawset(state, to);
  }
}

// Restores object number `i` from the restored checkpoint if that contains it.
void put_back(lua_State* state, lua_Integer i) {
  const int top = lua_gettop(state);
  push_list(state, kObjects);
  lua_rawgeti(state, -1, i);
  const int object = lua_gettop(state);
  push_list(state, kRestored);
  if (lua_rawgeti(state, -1, i) != LUA_TNIL) {
    const int contents = lua_gettop(state);
    if (push_method(state, object, "load_state_dict")) {
      lua_pushvalue(state, object);
      lua_pushvalue(state, contents);
      Runtime::of(state).call(state, 2, 0);
    } else {
      RUN_CHECK(lua_istable(state, contents), ErrorKind::kRun,
                "registered object {} was saved by state_dict, which it no longer has", i);
      replace_contents(state, object, contents);
    }
  }
  lua_settop(state, top);
}

// Returns whether the object has state_dict and load_state_dict. Throws if it has only one of them, which would
// otherwise be noticed only when the run is resumed.
bool has_methods(lua_State* state, int index) {
  const bool gives = push_method(state, index, "state_dict");
  if (gives) lua_pop(state, 1);
  const bool takes = push_method(state, index, "load_state_dict");
  if (takes) lua_pop(state, 1);
  RUN_CHECK(gives == takes, ErrorKind::kRun, "register_for_checkpointing: the object has {} but no {}",
            gives ? "state_dict" : "load_state_dict", gives ? "load_state_dict" : "state_dict");
  return gives;
}

// Returns the result of state_dict as text. The object and its state_dict are at the top of the stack; pops the latter.
std::string text_of_state_dict(lua_State* state, lua_Integer i) {
  lua_pushvalue(state, -1);
  const SourceMark defined = place_of_function(state);
  lua_pushvalue(state, -2);
  Runtime::of(state).call(state, 1, 1);
  const std::string what = fmt::format("state_dict of registered object {}", i);
  if (lua_isnil(state, -1))
    throw Error(ErrorKind::kRun, what + " returned nil, expected the value to pass to load_state_dict", defined);
  try {
    std::string text = plain_text(state, -1, what);
    lua_pop(state, 1);
    return text;
  } catch (Error& error) {
    error.locate(defined);
    throw;
  }
}

}  // namespace

void register_object(lua_State* state, int index) {
  if (!lua_istable(state, index)) bad_argument(state, index, "a table");
  const lua_Integer i = length_of(state, kObjects) + 1;
  if (!has_methods(state, index))
    plain_text(state, index, fmt::format("registered object {}", i));  // reports values that a checkpoint cannot store
  push_list(state, kObjects);
  lua_pushvalue(state, index);
  lua_rawseti(state, -2, i);
  lua_pop(state, 1);
  put_back(state, i);
}

void check_registered(lua_State* state) {
  const lua_Integer count = length_of(state, kObjects), restored = length_of(state, kRestored);
  RUN_CHECK(restored <= count, ErrorKind::kRun,
            "the state that this run resumed from has {} registered objects, but {} are registered; call "
            "acc:register_for_checkpointing before the first step",
            restored, count);
}

std::string registered_text(lua_State* state) {
  check_registered(state);
  const lua_Integer count = length_of(state, kObjects);
  std::string text = "{";
  push_list(state, kObjects);
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(state, -1, i);
    text += push_method(state, -1, "state_dict") ? text_of_state_dict(state, i)
                                                 : plain_text(state, -1, fmt::format("registered object {}", i));
    text += ',';
    lua_pop(state, 1);
  }
  lua_pop(state, 1);
  return text + "}";
}

void restore_registered(lua_State* state) {
  lua_setfield(state, LUA_REGISTRYINDEX, kRestored);
  for (lua_Integer i = 1; i <= length_of(state, kObjects); ++i) put_back(state, i);
}

}  // namespace runner::lua
