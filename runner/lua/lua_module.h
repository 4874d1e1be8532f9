// A module written in a hook: a table of modules, parameters and other values with a function `forward`; or only a
// function; or only a table.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/model/module.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// The table or function is in the registry of the Lua state under the address of this object. The object must be
// destroyed before the state.
class LuaModule : public nn::Module {
 public:
  // Keeps the table or function at the top of the stack, and leaves it there.
  explicit LuaModule(lua_State* state);
  ~LuaModule() override;

  // Pushes the function to call, followed by the table if the function is a method. Returns 1 for a function or 2 for a
  // method, which is the number of arguments of a call with one further argument.
  int push_callee(lua_State* state) const;
  void push_table(lua_State* state) const;

  // Submodules by the prefix of their parameter names, for example "blocks.0".
  const std::vector<std::pair<std::string, nn::ModulePtr>>& named_members() const { return members_; }
  std::string text() const override { return is_function_ ? "a function" : "nn.Module"; }

 private:
  nn::Value record(nn::ForwardContext& context, nn::Value x) const override;
  void add_parameters(nn::ParameterSet& parameters, const std::string& prefix) override;
  nn::Value returned(lua_State* state) const;
  void find_members(lua_State* state, const std::string& prefix, std::set<const void*>& seen);
  void take_member(lua_State* state, const std::string& name, std::set<const void*>& seen);

  Runtime& runtime_;
  const bool is_function_;
  std::vector<std::pair<std::string, nn::ModulePtr>> members_;
};

}  // namespace runner::lua
