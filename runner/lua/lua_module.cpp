#include "runner/lua/lua_module.h"

#include <algorithm>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/modules.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"

namespace runner::lua {

LuaModule::LuaModule(lua_State* state) : runtime_(Runtime::of(state)), is_function_(lua_isfunction(state, -1)) {
  std::set<const void*> seen;
  if (lua_istable(state, -1)) find_members(state, "", seen);
  lua_pushvalue(state, -1);
  lua_rawsetp(state, LUA_REGISTRYINDEX, this);
}

LuaModule::~LuaModule() {
  lua_pushnil(runtime_.state());
  lua_rawsetp(runtime_.state(), LUA_REGISTRYINDEX, this);
}

int LuaModule::push_callee(lua_State* state) const {
  push_table(state);
  if (lua_isfunction(state, -1)) return 1;
  if (!push_field(state, -1, "forward"))
    throw Error(ErrorKind::kRun, "a table of modules without a function forward cannot be called; call its modules",
                made_at());
  lua_insert(state, -2);
  return 2;
}

void LuaModule::push_table(lua_State* state) const {
  lua_rawgetp(state, LUA_REGISTRYINDEX, this);
}

Value LuaModule::record(nn::ForwardContext& context, Value x) const {
  const ModuleCall module_call(*runtime_.recording);
  const RecordingScope scope(runtime_, context);  // nests within the recording of a step
  Recording& recording = recording_of(runtime_.state(), "the output of a module");
  lua_State* const state = recording.caller();
  const int callee = push_callee(state);
  push_tensor(state, x);
  runtime_.call(state, callee, 1);
  const Value y = returned(state);
  lua_pop(state, 1);
  recording.mark_line(state);  // later operations belong to the line of the caller, not to the function that returned
  return y;
}

// Returns the tensor at the top of the stack.
Value LuaModule::returned(lua_State* state) const {
  if (is_tensor(state, -1)) return tensor_value(state, -1, "the output of a module");
  const std::string type(type_name(state, -1));
  push_callee(state);
  const bool is_method = lua_istable(state, -1);
  if (is_method) lua_pop(state, 1);
  throw Error(
      ErrorKind::kRun,
      fmt::format("{} returned {}, expected a tensor", is_method ? "forward" : "a function of nn.Sequential", type),
      place_of_function(state));
}

// Finds the modules in the table at the top of the stack and in nested tables. Order: numbers first, then names sorted.
void LuaModule::find_members(lua_State* state, const std::string& prefix, std::set<const void*>& seen) {
  if (!seen.insert(lua_topointer(state, -1)).second) return;
  check_depth(std::ranges::count(prefix, '.'));
  RUN_CHECK(lua_checkstack(state, 8) != 0, ErrorKind::kRun, "the Lua stack is full");
  const auto length = static_cast<lua_Integer>(lua_rawlen(state, -1));
  for (lua_Integer i = 1; i <= length; ++i) {
    lua_rawgeti(state, -1, i);
    take_member(state, prefix + std::to_string(i - 1), seen);
  }
  for (const std::string& name : text_keys(state, -1)) {
    lua_pushlstring(state, name.data(), name.size());
    lua_rawget(state, -2);
    take_member(state, prefix + name, seen);
  }
}

// Takes the value at the top of the stack and pops it.
void LuaModule::take_member(lua_State* state, const std::string& name, std::set<const void*>& seen) {
  if (is_module(state, -1)) {
    nn::ModulePtr member = module_value(state, -1, name);
    check_name(name, "the model", "a module");
    contain(*member);
    members_.emplace_back(name, std::move(member));
  } else if (lua_istable(state, -1)) {
    find_members(state, name + ".", seen);
  }
  lua_pop(state, 1);
}

void LuaModule::add_parameters(nn::ParameterSet& parameters, const std::string& prefix) {
  for (const auto& [name, member] : members_) member->declare(parameters, fmt::format("{}{}.", prefix, name));
}

}  // namespace runner::lua
