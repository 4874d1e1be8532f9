// `acc`, the object that hooks are given: the model, the run, and what can be done with them.
#pragma once

#include <span>

#include "runner/train/hooks.h"

struct lua_State;

namespace runner::lua {

// What `acc` shows; the hooks own it, and it must outlive the state.
struct Accelerator {
  const schema::Recipe& recipe;
  train::RunControl* run = nullptr;  // null: no run is under way
  nn::ModulePtr model = nullptr;     // what set_model() has set
};

struct AcceleratorName {
  const char* name;
  const char* usage;
  const char* text;
};
std::span<const AcceleratorName> accelerator_names();

// Pushes the object.
void push_accelerator(lua_State* state, Accelerator& accelerator);
// Sets acc.model.
void set_model(lua_State* state, nn::ModulePtr model);

// Pushes a value of the recipe as Lua has it.
void push_value(lua_State* state, const schema::Value& value);
void push_map(lua_State* state, const schema::ValueMap& map);

}  // namespace runner::lua
