// Tensors in Lua: operators, methods, and the functions of `nn` that work on tensors, from one table.
//
// Axes count from 1, or from −1 at the end.  Numbers stand for tensors of the other operand's type; operands of two
// types meet in the wider one, as torch's do.
#pragma once

#include <span>
#include <string_view>

struct lua_State;

namespace runner::lua {

// A name that hooks can use, for docs/lua.md and suggestions.
struct TensorFunction {
  const char* name;
  int (*function)(lua_State*);
  bool is_method;     // x:name(…), x first
  bool is_function;   // nn.name(…)
  const char* usage;  // "x:sum([axis…])"
  const char* text;
};
std::span<const TensorFunction> tensor_functions();

// Registers the metatable of tensors.
void open_tensors(lua_State* state);

}  // namespace runner::lua
