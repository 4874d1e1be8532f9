// Tables that Lua code can read but not change: libraries, and the tables that hooks receive.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// Replaces the table at the top of the stack with a read-only view. `name`: its name in messages. The original table is
// the __index of the view's metatable.
void seal(lua_State* state, const char* name);
// Like seal(), including nested tables.
void seal_all(lua_State* state, const std::string& name);
// Makes the table at the top of the stack a sealed library of `require`. `missing`: __index for unknown names. Returns
// 1, the number of results of a function that opens a library.
int open_library(lua_State* state, const char* name, int (*missing)(lua_State*));
// Replaces a sealed table at `index` with the original table. Other values are unchanged.
void unseal(lua_State* state, int index);

// __newindex of a read-only table. Upvalue 1: its name.
int refuse_entry(lua_State* state);

// Makes reading an unknown name of the table at the top of the stack an error, and with `closed` also setting one.
// `name`: its name in messages; `closed` must be the same for all tables with this name.
void refuse_unknown(lua_State* state, const char* name, bool closed = false);

// Hides the metatable at the top of the stack from Lua code: getmetatable returns false and setmetatable is an error.
void protect_metatable(lua_State* state);
// Whether the metatable of the value at `index` is hidden that way.
bool is_protected(lua_State* state, int index);

}  // namespace runner::lua
