// Tensor functions in Lua that move elements without computing; tensor.cpp has the table of them.
#pragma once

struct lua_State;

namespace runner::lua::layout {

int reshape(lua_State* state);
int flatten(lua_State* state);
int transpose(lua_State* state);
int permute(lua_State* state);
int expand(lua_State* state);
int unsqueeze(lua_State* state);
int squeeze(lua_State* state);
int slice(lua_State* state);
int concat(lua_State* state);
int stack(lua_State* state);
int chunk(lua_State* state);
int pad(lua_State* state);
int tril(lua_State* state);
int triu(lua_State* state);

}  // namespace runner::lua::layout
