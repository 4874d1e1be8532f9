// Tables that Lua code can read and not change: libraries, and what hooks are given.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// Puts a table in the place of the library at the top of the stack, which messages call `name`, that has its entries
// and takes no others.  The library itself is the __index of its metatable.
void seal(lua_State* state, const char* name);
// The same for the tables in it.
void seal_all(lua_State* state, const std::string& name);
// Makes the table at the top of the stack a library of `require`, sealed, which asks `missing` for names that it does
// not have; gives 1, the number of results of a function that opens it.
int open_library(lua_State* state, const char* name, int (*missing)(lua_State*));
// Puts what stands behind a table that seal() has made in its place at `index`; other values stay.
void unseal(lua_State* state, int index);

// __newindex of a table that takes no entries; upvalue 1: its name.
int refuse_entry(lua_State* state);

// The table at the top of the stack, which messages call `name`, answers names that it does not have with an error;
// those that are set as well where `closed`, which is one for each `name`.
void refuse_unknown(lua_State* state, const char* name, bool closed = false);

// Hides the metatable at the top of the stack from Lua code: getmetatable gives false and setmetatable is an error.
void protect_metatable(lua_State* state);

}  // namespace runner::lua
