#include "runner/lua/seal.h"

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "schema/base/error.h"

namespace runner::lua {

int refuse_entry(lua_State* state) {
  fail(ErrorKind::kRun, "{}.{} cannot be set; keep your own values in a local table",
       lua_tostring(state, lua_upvalueindex(1)), text_of(state, 2));
}

namespace {

// Their addresses are keys in metatables: of sealed tables, and of all that are protected.
constexpr char kSealed = 0, kProtected = 0;

// __len. Upvalue 1: the library.
int length_of_library(lua_State* state) {
  lua_pushinteger(state, static_cast<lua_Integer>(lua_rawlen(state, lua_upvalueindex(1))));
  return 1;
}

// __pairs. Upvalue 1: the library.
int pairs_of_library(lua_State* state) {
  lua_getglobal(state, "pairs");
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_call(state, 1, 3);
  lua_pushvalue(state, 1);  // the iterator knows the library, which must not leave
  lua_replace(state, -3);
  return 3;
}

int unknown_name(lua_State* state) {
  fail_unknown(fmt::format("{} has no", type_name(state, 1)), text_of(state, 2), text_keys(state, 1));
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
  luaL_checkstack(state, 10, "tables are nested too deeply");
  const int table = lua_gettop(state);
  lua_pushnil(state);
  while (lua_next(state, table) != 0) {
    if (lua_istable(state, -1)) {
      seal_all(state, fmt::format("{}.{}", name, text_of(state, -2)));
      lua_pushvalue(state, -2);
      lua_insert(state, -2);
      lua_rawset(state, table);  // assigns an existing field, which lua_next permits
    } else {
      lua_pop(state, 1);
    }
  }
  seal(state, name.c_str());
}

int open_library(lua_State* state, const char* name, int (*missing)(lua_State*)) {
  lua_createtable(state, 0, 2);
  set_function(state, "__index", missing);
  protect_metatable(state);
  lua_setmetatable(state, -2);
  seal(state, name);
  return 1;
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
  lua_pushboolean(state, 1);
  lua_rawsetp(state, -2, &kProtected);
}

bool is_protected(lua_State* state, int index) {
  if (lua_getmetatable(state, index) == 0) return false;
  const bool is = lua_rawgetp(state, -1, &kProtected) != LUA_TNIL;
  lua_pop(state, 2);
  return is;
}

}  // namespace runner::lua
