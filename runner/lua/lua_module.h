// A module that a hook has written: a table of modules, parameters and anything else with a function `forward`, or a
// function alone, or a table alone.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/nn/module.h"

struct lua_State;

namespace runner::lua {

class Runtime;

// The table lives in the registry of the state, under the address of this object, which must be gone before the state.
class LuaModule : public nn::Module {
 public:
  // Takes the table or function at the top of the stack, and leaves it there.
  explicit LuaModule(lua_State* state);
  ~LuaModule() override;

  // Pushes the function to call, and the table as its first argument where it is a method; returns the number of
  // arguments so far + 1.
  int push_callee(lua_State* state) const;
  void push_table(lua_State* state) const;

  // By the names of their parameters: "blocks.0".
  const std::vector<std::pair<std::string, nn::ModulePtr>>& named_members() const { return members_; }
  std::string text() const override { return is_function_ ? "a function" : "nn.Module"; }

 private:
  nn::Value record(nn::Forward& context, nn::Value x) const override;
  void add_parameters(nn::ParameterSet& parameters, const std::string& prefix) override;
  nn::Value returned(lua_State* state) const;
  void find_members(lua_State* state, const std::string& prefix, std::set<const void*>& seen);
  void take_member(lua_State* state, const std::string& name, std::set<const void*>& seen);

  Runtime& runtime_;
  const bool is_function_;
  std::vector<std::pair<std::string, nn::ModulePtr>> members_;
};

}  // namespace runner::lua
