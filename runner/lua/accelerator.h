// `acc`, the object that hooks receive: the model, the run, the custom loop, and their methods.
//
// Its names are in tables. Fields and methods available to every hook are in accelerator.cpp, those of a custom
// training loop in loop_methods.cpp, and those for several processes in process_methods.cpp.
#pragma once

#include <span>
#include <string_view>

#include "runner/lua/bind.h"
#include "runner/lua/hook_file.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/hooks.h"

struct lua_State;

namespace runner::lua {

// The state behind `acc`. It must be destroyed before the Lua state, which keeps modules of its model.
struct Accelerator {
  const schema::Recipe& recipe;
  MetricsReport report = nullptr;
  train::HookRun* run = nullptr;          // null: no run is active
  train::CustomLoop* loop = nullptr;      // null: no custom training loop is active
  train::HookTensors* tensors = nullptr;  // of the loop or of an event; null: neither is active
  nn::ModulePtr model = nullptr;          // set by set_model()
  bool triggered = false;                 // acc:set_trigger() was called in a custom loop
  bool is_replayed = false;               // true during a call that is traced once and then replayed (tpu.trace_once)
  // The newest loops over batches, indexed by train::Split.
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
  void (*set)(lua_State*, Accelerator&, int value) = nullptr;  // null: read-only
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

// Fields of a batch, in a step and in a custom loop.
struct BatchField {
  const char* name;
  void (*push)(lua_State*, const train::StepInputs&);
};
std::span<const BatchField> batch_fields();
// Inputs of the model that a batch has in addition to `features`.
inline std::span<const nn::ModelInput> more_inputs(const train::StepInputs& inputs) {
  return inputs.forward.inputs.subspan(inputs.forward.inputs.empty() ? 0 : 1);
}

// All fields and methods of `acc`.
struct AcceleratorName {
  const char* name;
  const char* usage;  // empty for a field
  const char* text;
};
std::span<const AcceleratorName> accelerator_names();

// Registers the metatables of the custom loop's objects.
void open_loop(lua_State* state);
// Pushes `acc`.
void push_accelerator(lua_State* state, Accelerator& accelerator);
// Sets acc.model.
void set_model(lua_State* state, nn::ModulePtr model);

// Returns the object of a method call, which is its first argument.
Accelerator& accelerator_argument(lua_State* state);
// Return what acc.`what` needs. All throw Error(kRun) if there is none.
train::HookRun& run_of(const Accelerator& accelerator, std::string_view what);
train::CustomLoop& loop_of(const Accelerator& accelerator, std::string_view what);
train::HookTensors& tensors_of(const Accelerator& accelerator, std::string_view what);

// Returns the process group for acc:`what`, or null for a single process. In a custom loop, finishes the collectives of
// its traced region first. Counts the exchange as instructions of the hook, because it takes as long.
backends::ProcessGroup* group_for_exchange(lua_State* state, const Accelerator& accelerator, std::string_view what);
// Returns the call site by which ranks match their collectives.
backends::Site site_of(lua_State* state, const Accelerator& accelerator, std::string_view what);

// Returns whether Lua code may catch an error of a function that computes a step and begins the next one. It may not if
// a custom loop has no step to continue with. Otherwise, the error comes from a wrong argument and pcall catches it.
Raise raise_in_loop(lua_State* state);
template <int (*function)(lua_State*)>
constexpr auto bound_in_loop = bound<function, raise_in_loop>;

// Rank of this process, from 0.
int process_index(const Accelerator& accelerator);

// Pushes a value of the recipe as a Lua value.
void push_value(lua_State* state, const schema::Value& value);
void push_map(lua_State* state, const schema::ValueMap& map);

}  // namespace runner::lua
