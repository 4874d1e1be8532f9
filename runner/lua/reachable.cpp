#include "runner/lua/reachable.h"

#include <cmath>

#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

// Layout of a snapshot: a list with five values per container (a function or a table): the container, a table with a
// copy of its values, its name, the number of values, and its metatable or false. Field kKnown has the containers as
// keys; field kSize is the total number of values.
constexpr lua_Integer kContainer = 1, kCopy = 2, kReachableName = 3, kCount = 4, kReachableMetatable = 5, kStride = 5;
constexpr const char* kKnown = "known";
constexpr const char* kSize = "size";

// Below, `snapshot` is an absolute stack index, and `first` the position of a container in the list.

// Pushes the name of the entry of table `name` whose key is at `key`. Both are stack indices.
void push_entry_name(lua_State* state, int name, int key) {
  const char* const table = lua_tostring(state, name);
  if (lua_type(state, key) == LUA_TSTRING) {
    lua_pushfstring(state, "%s%s%s", table, *table == 0 ? "" : ".", lua_tostring(state, key));
  } else if (lua_isinteger(state, key) != 0) {
    lua_pushfstring(state, "%s[%I]", table, static_cast<LUAI_UACINT>(lua_tointeger(state, key)));
  } else {
    lua_pushfstring(state, "%s[%s]", table, luaL_typename(state, key));
  }
}

// Pushes the name of an upvalue of the function `name`. Upvalues of C functions have no name; then pushes that of the
// function.
void push_upvalue_name(lua_State* state, int name, const char* upvalue) {
  *upvalue == 0 ? lua_pushvalue(state, name) : static_cast<void>(lua_pushstring(state, upvalue));
}

void push_metatable_name(lua_State* state, int name) {
  lua_pushfstring(state, "the metatable of %s", lua_tostring(state, name));
}

// Pops a name and the value below it. Appends the value to the list if it is a container that is not yet in it.
void append(lua_State* state, int snapshot) {
  const int name = lua_gettop(state), value = name - 1;
  RUN_CHECK(lua_type(state, value) != LUA_TTHREAD, ErrorKind::kRun,
            "transform uses a coroutine, {}, which would carry state from sample to sample; create it inside transform",
            lua_tostring(state, name));
  if (lua_istable(state, value) || lua_isfunction(state, value)) {
    lua_getfield(state, snapshot, kKnown);
    lua_pushvalue(state, value);
    if (lua_rawget(state, -2) == LUA_TNIL) {
      lua_pushvalue(state, value);
      lua_pushboolean(state, 1);
      lua_rawset(state, -4);
      const auto end = static_cast<lua_Integer>(lua_rawlen(state, snapshot));
      lua_pushvalue(state, value);
      lua_rawseti(state, snapshot, end + kContainer);
      lua_newtable(state);
      lua_rawseti(state, snapshot, end + kCopy);
      lua_pushvalue(state, name);
      lua_rawseti(state, snapshot, end + kReachableName);
      lua_pushinteger(state, 0);
      lua_rawseti(state, snapshot, end + kCount);
      lua_pushboolean(state, 0);
      lua_rawseti(state, snapshot, end + kReachableMetatable);
    }
  }
  lua_settop(state, value - 1);
}

// Copies the upvalues of a function and appends the containers among them. The stack ends with the container, its copy
// and its name.
void copy_function(lua_State* state, int snapshot) {
  const int name = lua_gettop(state), copy = name - 1, function = name - 2;
  for (int i = 1; const char* upvalue = lua_getupvalue(state, function, i); ++i) {
    push_upvalue_name(state, name, upvalue);
    lua_pushvalue(state, -2);
    lua_rawseti(state, copy, i);
    append(state, snapshot);
  }
}

// Like copy_function(), for the entries of a table and its metatable.
void copy_table(lua_State* state, int snapshot, lua_Integer first) {
  const int name = lua_gettop(state), copy = name - 1, table = name - 2;
  lua_pushnil(state);
  while (lua_next(state, table) != 0) {
    const int key = lua_gettop(state) - 1;
    lua_pushvalue(state, key);
    lua_pushvalue(state, key + 1);
    lua_rawset(state, copy);
    push_entry_name(state, name, key);
    append(state, snapshot);
  }
  if (lua_getmetatable(state, table) == 0) return;
  lua_pushvalue(state, -1);
  lua_rawseti(state, snapshot, first - 1 + kReachableMetatable);
  push_metatable_name(state, name);
  append(state, snapshot);
}

// Pushes a container, its copy and its name.
void push_container(lua_State* state, int snapshot, lua_Integer first) {
  for (const lua_Integer part : {kContainer, kCopy, kReachableName}) lua_rawgeti(state, snapshot, first - 1 + part);
}

// Pops two values and returns whether they are equal. NaN equals NaN.
bool same(lua_State* state) {
  const bool equal =
      lua_rawequal(state, -1, -2) != 0 || (lua_type(state, -1) == LUA_TNUMBER && lua_type(state, -2) == LUA_TNUMBER &&
                                           std::isnan(lua_tonumber(state, -1)) && std::isnan(lua_tonumber(state, -2)));
  lua_pop(state, 2);
  return equal;
}

// Like compare(), for one function. The stack ends with the container, its copy and its name.
bool same_upvalues(lua_State* state) {
  const int name = lua_gettop(state), copy = name - 1, function = name - 2;
  for (int i = 1; const char* upvalue = lua_getupvalue(state, function, i); ++i) {
    lua_rawgeti(state, copy, i);
    if (same(state)) continue;
    push_upvalue_name(state, name, upvalue);
    return false;
  }
  return true;
}

// Pushes the name of an entry that is in the copy but no longer in the table. The stack ends with the container, its
// copy and its name.
void push_removed_name(lua_State* state, int name) {
  const int copy = name - 1, table = name - 2;
  lua_pushnil(state);
  while (lua_next(state, copy) != 0) {
    lua_pop(state, 1);
    lua_pushvalue(state, -1);
    if (lua_rawget(state, table) == LUA_TNIL) break;
    lua_pop(state, 1);
  }
  push_entry_name(state, name, name + 1);
}

bool same_entries(lua_State* state, int snapshot, lua_Integer first) {
  const int name = lua_gettop(state), copy = name - 1, table = name - 2;
  lua_Integer count = 0;
  lua_pushnil(state);
  for (; lua_next(state, table) != 0; ++count) {
    lua_pushvalue(state, name + 1);
    lua_rawget(state, copy);
    if (same(state)) continue;
    push_entry_name(state, name, name + 1);
    return false;
  }
  lua_rawgeti(state, snapshot, first - 1 + kCount);
  if (count < lua_tointeger(state, -1)) {
    lua_settop(state, name);
    push_removed_name(state, name);
    return false;
  }
  lua_rawgeti(state, snapshot, first - 1 + kReachableMetatable);
  if (lua_getmetatable(state, table) == 0) lua_pushboolean(state, 0);
  if (same(state)) return true;
  push_metatable_name(state, name);
  return false;
}

}  // namespace

void push_snapshot(lua_State* state) {
  lua_newtable(state);
  lua_newtable(state);
  lua_setfield(state, -2, kKnown);
  lua_pushinteger(state, 0);
  lua_setfield(state, -2, kSize);
}

void add_root(lua_State* state, int index, const char* name) {
  const int snapshot = lua_absindex(state, index);
  luaL_checkstack(state, 20, nullptr);
  auto first = static_cast<lua_Integer>(lua_rawlen(state, snapshot)) + 1;
  lua_pushstring(state, name);
  append(state, snapshot);
  const int top = lua_gettop(state);
  for (; lua_rawgeti(state, snapshot, first) != LUA_TNIL; first += kStride) {
    lua_settop(state, top);
    push_container(state, snapshot, first);
    lua_isfunction(state, top + 1) ? copy_function(state, snapshot) : copy_table(state, snapshot, first);
    const int64_t count = count_entries(state, top + 2);
    lua_pushinteger(state, count);
    lua_rawseti(state, snapshot, first - 1 + kCount);
    lua_pushinteger(state, snapshot_size(state, snapshot) + count + 1);
    lua_setfield(state, snapshot, kSize);
  }
  lua_settop(state, top);
}

int64_t snapshot_size(lua_State* state, int index) {
  lua_getfield(state, index, kSize);
  const int64_t size = lua_tointeger(state, -1);
  lua_pop(state, 1);
  return size;
}

bool compare(lua_State* state, int index) {
  const int snapshot = lua_absindex(state, index), top = lua_gettop(state);
  const auto end = static_cast<lua_Integer>(lua_rawlen(state, snapshot));
  for (lua_Integer first = 1; first < end; first += kStride) {
    push_container(state, snapshot, first);
    const bool is_function = lua_isfunction(state, top + 1);
    if (is_function ? !same_upvalues(state) : !same_entries(state, snapshot, first)) {
      lua_replace(state, top + 1);
      lua_settop(state, top + 1);
      return false;
    }
    lua_settop(state, top);
  }
  return true;
}

}  // namespace runner::lua
