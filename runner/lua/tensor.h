// Tensors in Lua: one table of operators, methods, and functions of `nn` that work on tensors.
//
// Axes count from 1, or from −1 at the end. A number operand takes the type of the tensor operand. Operands of
// different types are promoted as in torch.
#pragma once

#include <span>

struct lua_State;

namespace runner::lua {

// A name available to hooks, for docs/lua.md and suggestions.
struct TensorFunction {
  const char* name;
  int (*function)(lua_State*);
  bool is_method;     // x:name(…), with x as the first argument
  bool is_function;   // nn.name(…)
  const char* usage;  // "x:sum([axis…])"
  const char* text;
};
std::span<const TensorFunction> tensor_functions();

// Registers the metatable of tensors.
void open_tensors(lua_State* state);

}  // namespace runner::lua
