// Functions of `nn` in Lua that create tensors of numbers; tensor.cpp has the table of them.
#pragma once

struct lua_State;

namespace runner::lua::creation {

int tensor(lua_State* state);
int full(lua_State* state);
int full_like(lua_State* state);
int zeros(lua_State* state);
int ones(lua_State* state);
int zeros_like(lua_State* state);
int ones_like(lua_State* state);
int arange(lua_State* state);
int eye(lua_State* state);
int rand(lua_State* state);
int randn(lua_State* state);

}  // namespace runner::lua::creation
