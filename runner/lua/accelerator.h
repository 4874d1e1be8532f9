// `acc`, the object that hooks are given: the model, the run, the loop, and what can be done with them.
//
// Its names stand in tables: fields and methods that every hook has in accelerator.cpp, those of a loop of the hook's
// in loop_methods.cpp, those about several processes in process_methods.cpp.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/lua/bind.h"
#include "runner/train/step/hooks.h"

struct lua_State;

namespace runner::lua {

// What `acc` shows; alive while hooks are called, and gone before the state, in which
// modules of its model live.
struct Accelerator {
  const schema::Recipe& recipe;
  train::RunControl* run = nullptr;   // null: no run is under way
  train::CustomLoop* loop = nullptr;  // null: no loop of the hook's is under way
  nn::ModulePtr model = nullptr;      // what set_model() has set
  bool triggered = false;             // acc:set_trigger() in a loop
  bool is_replayed = false;           // what is called now: it is not called again for each step (tpu.trace_once)
  // The newest loops over batches, by train::Split.
  struct Batches {
    int64_t number = 0;
    SourceMark begun;  // the line that called acc:batches
  };
  Batches newest[2] = {};
};

struct AcceleratorField {
  const char* name;
  int (*push)(lua_State*, Accelerator&);
  const char* text;
  void (*set)(lua_State*, Accelerator&, int value) = nullptr;  // null: it cannot be set
};

struct AcceleratorMethod {
  const char* name;
  int (*function)(lua_State*);
  const char* usage;
  const char* text;
};

std::span<const AcceleratorField> loop_fields();
std::span<const AcceleratorMethod> loop_methods();
std::span<const AcceleratorMethod> process_methods();

// What a batch has, in a step as in a loop.
struct BatchField {
  const char* name;
  void (*push)(lua_State*, const train::StepInputs&);
};
std::span<const BatchField> batch_fields();

// All of them.
struct AcceleratorName {
  const char* name;
  const char* usage;  // empty: a field
  const char* text;
};
std::span<const AcceleratorName> accelerator_names();

// Registers what the loop's objects are.
void open_loop(lua_State* state);
// Pushes the object.
void push_accelerator(lua_State* state, Accelerator& accelerator);
// Sets acc.model.
void set_model(lua_State* state, nn::ModulePtr model);

// The object of a method: its first argument.
Accelerator& accelerator_argument(lua_State* state);
// What acc.`what` needs.  Both throw Error(kRun) where there is none.
train::RunControl& run_of(const Accelerator& accelerator, std::string_view what);
train::CustomLoop& loop_of(const Accelerator& accelerator, std::string_view what);

// The processes that acc:WHAT is about to meet, what they do together in a loop's segment being done; null: there is no
// other.  A meeting takes as long as many instructions, and counts as that.
backends::Collectives* replicas_to_meet(lua_State* state, const Accelerator& accelerator, std::string_view what);
// Where they meet.
backends::Site site_of(lua_State* state, const Accelerator& accelerator, std::string_view what);

// Who may go on after an error of what computes a step and begins another: nobody, where the hook's loop has no step to
// go on with; elsewhere it has only been asked for something wrong.
Raise raise_in_loop(lua_State* state);
template <int (*function)(lua_State*)>
constexpr auto bound_in_loop = bound<function, raise_in_loop>;

// The number of this process among those that train, from 0.
int process_index(const Accelerator& accelerator);

// Pushes a value of the recipe as Lua has it.
void push_value(lua_State* state, const schema::Value& value);
void push_map(lua_State* state, const schema::ValueMap& map);

}  // namespace runner::lua
