// Queries of a tensor in Lua: its shape and dtype, and its values, which are computed on demand.
#pragma once

struct lua_State;

namespace runner::lua::queries {

int shape(lua_State* state);
int size(lua_State* state);
int dim(lua_State* state);
int numel(lua_State* state);
int dtype(lua_State* state);
int tolist(lua_State* state);
int item(lua_State* state);
int to_string(lua_State* state);
int length(lua_State* state);

}  // namespace runner::lua::queries
