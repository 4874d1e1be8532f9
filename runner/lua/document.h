// Tables of the binding that only tests read: they compare docs/lua.md with them.
#pragma once

#include <span>
#include <string_view>

struct lua_State;

namespace runner::lua {

struct ModuleFunction {
  const char* name;
  int (*function)(lua_State*);
  const char* usage;
  const char* text;
};
// Functions of `nn` that create modules.
std::span<const ModuleFunction> module_functions();

// Functions of `optim`: the optimizers of the recipe, and `Optimizer` for a custom rule.
struct OptimizerFunction {
  const char* name;
  int (*function)(lua_State*);
  const char* usage = "optim.NAME(module [, options])";
};
std::span<const OptimizerFunction> optimizer_functions();

// Names of the fields of `sample` in a transform.
std::span<const std::string_view> sample_fields();

}  // namespace runner::lua
