#include "runner/lua/accelerator.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <lua.hpp>

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "runner/formats/model_files.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/modules.h"
#include "runner/lua/recording.h"
#include "runner/lua/registered.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"
#include "runner/train/loop/custom_loop.h"
#include "store/state_store.h"

namespace runner::lua {
namespace {

constexpr const char* kAcceleratorName = "acc";
constexpr const char* kModel = "runner.model";  // key in the registry
constexpr const char* kVarsKey = "runner.vars";
constexpr char kAccelerator = 0;  // its address is a registry key

int push_integer(lua_State* state, int64_t value) {
  lua_pushinteger(state, value);
  return 1;
}

int push_text(lua_State* state, std::string_view text) {
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

// ---- fields --------------------------------------------------------------------------------------------------------

// Makes a table read-only for new entries; its metatable is at the top of the stack.
void refuse_entries(lua_State* state, const char* name) {
  lua_pushstring(state, name);
  lua_pushcclosure(state, bound<refuse_entry>, 1);
  lua_setfield(state, -2, "__newindex");
  protect_metatable(state);
}

// acc.metrics[name]: the newest value, or nil before the first one.
int metric(lua_State* state) {
  const Accelerator& accelerator = **static_cast<Accelerator**>(lua_touserdata(state, lua_upvalueindex(1)));
  const auto value = run_of(accelerator, "metrics").metric(std::string(key_argument(state, "acc.metrics")));
  if (!value) return 0;
  lua_pushnumber(state, *value);
  return 1;
}

int push_metrics(lua_State* state, Accelerator&) {
  lua_newtable(state);
  lua_createtable(state, 0, 2);
  lua_pushvalue(state, 1);
  lua_pushcclosure(state, bound<metric>, 1);
  lua_setfield(state, -2, "__index");
  refuse_entries(state, "acc.metrics");
  lua_setmetatable(state, -2);
  return 1;
}

// All calls return the same sealed table. Values set in it would not be part of checkpoints.
int push_vars(lua_State* state, Accelerator& accelerator) {
  if (lua_getfield(state, LUA_REGISTRYINDEX, kVarsKey) != LUA_TNIL) return 1;
  push_map(state, accelerator.recipe.vars);
  seal_all(state, "acc.vars");
  lua_pushvalue(state, -1);
  lua_setfield(state, LUA_REGISTRYINDEX, kVarsKey);
  return 1;
}

// An event makes the model known when its region begins.
int push_model(lua_State* state, Accelerator& accelerator) {
  if (accelerator.model == nullptr) Runtime::of(state).recording->begin_lazily();
  const bool is_set = lua_getfield(state, LUA_REGISTRYINDEX, kModel) != LUA_TNIL;
  RUN_CHECK(is_set, ErrorKind::kRun, "acc.model is not available here; use it in a step, an event or `train`");
  return 1;
}

// The emulated device has the name of the real one.
int push_device(lua_State* state, Accelerator& accelerator) {
  switch (accelerator.recipe.backend) {
    case schema::Backend::kCpu: return push_text(state, "cpu");
    case schema::Backend::kGpu: return push_text(state, fmt::format("cuda:{}", process_index(accelerator)));
    case schema::Backend::kTpu: return push_text(state, fmt::format("xla:{}", process_index(accelerator)));
  }
  return 0;
}

int push_backend(lua_State* state, Accelerator& accelerator) {
  return push_text(state, name_of(accelerator.recipe.backend));
}

int push_is_main(lua_State* state, Accelerator& accelerator) {
  lua_pushboolean(state, process_index(accelerator) == 0);
  return 1;
}

int push_accumulation(lua_State* state, Accelerator& accelerator) {
  return push_integer(state, run_of(accelerator, "gradient_accumulation_steps").accumulation());
}

void set_accumulation(lua_State* state, Accelerator& accelerator, int value) {
  train::HookRun& run = run_of(accelerator, "gradient_accumulation_steps");
  const std::optional<int64_t> batches = integer_at(state, value);
  RUN_CHECK(batches && *batches >= 1 && *batches <= INT32_MAX, ErrorKind::kRun,
            "acc.gradient_accumulation_steps is {}, expected an integer from 1 to {}", text_of(state, value),
            INT32_MAX);
  run.set_accumulation(*batches);
}

constexpr AcceleratorField kAcceleratorFields[] = {
    {"model", push_model, "The model: acc.model(batch.features)."},
    {"metrics", push_metrics, "Newest values by name: acc.metrics[\"eval/accuracy\"]; nil before the first value."},
    {"epoch", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "epoch").epoch()); },
     "Number of finished epochs."},
    {"step", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "step").step()); },
     "Number of finished optimizer steps."},
    {"steps", [](lua_State* state, Accelerator& a) { return push_integer(state, run_of(a, "steps").steps()); },
     "Number of optimizer steps of the whole run."},
    {"gradient_accumulation_steps", push_accumulation,
     "Batches per optimizer step.  Can be set, to the same value in every process; applies from the next step.",
     set_accumulation},
    {"run", [](lua_State* state, Accelerator& a) { return push_text(state, run_of(a, "run").run()); },
     "Id of the run."},
    {"name", [](lua_State* state, Accelerator& a) { return push_text(state, a.recipe.name); }, "Name of the run."},
    {"vars", push_vars, "Values under `vars` in the recipe."},
    {"num_processes", [](lua_State* state, Accelerator& a) { return push_integer(state, a.recipe.num_processes); },
     "Number of processes."},
    {"process_index", [](lua_State* state, Accelerator& a) { return push_integer(state, process_index(a)); },
     "Rank of this process, from 0."},
    {"is_main_process", push_is_main, "Whether this is process 0."},
    {"is_local_main_process", push_is_main, "The same: all processes are on one machine."},
    {"backend", push_backend, "Backend of the recipe: \"cpu\", \"gpu\" or \"tpu\"."},
    {"device", push_device,
     "Device of this process, as Accelerate prints it: \"cpu\", \"cuda:0\" or \"xla:0\", with the rank."},
};

// ---- methods -------------------------------------------------------------------------------------------------------

int accelerator_print(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  train::HookRun& run = run_of(accelerator, "print");
  if (process_index(accelerator) != 0) return 0;
  std::string line;
  for (int i = 2; i <= lua_gettop(state); ++i) {
    size_t size = 0;
    push_text_of(state, i);
    const char* text = lua_tolstring(state, -1, &size);
    if (i > 2) line += '\t';
    line.append(text, size);
    lua_pop(state, 1);
  }
  run.print(line);
  return 0;
}

// acc:log{name = number, …}. In a custom loop, scalar tensors are accepted too.
int log(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  train::HookRun& run = run_of(accelerator, "log");
  if (!lua_istable(state, 2)) bad_argument(state, 2, "a table of numbers by name");
  if (!lua_isnoneornil(state, 3))
    RUN_CHECK(integer_argument(state, 3) == run.step(), ErrorKind::kRun,
              "log: expected the current step {1}, got step {0}; a point belongs to the step at which it is logged",
              integer_argument(state, 3), run.step());
  train::CustomLoop* const loop =
      accelerator.loop != nullptr && accelerator.loop->in_step() ? accelerator.loop : nullptr;
  train::HookTensors* const tensors = loop != nullptr || accelerator.loop == nullptr ? accelerator.tensors : nullptr;
  constexpr int64_t kEntry = 100;  // instructions; approximate cost of a point
  Runtime::of(state).spend(state, kEntry * count_entries(state, 2));
  // Sorted, so that series have the same numbers in every run.
  for (const std::string& name : metric_keys(state, 2, "log")) {
    RUN_CHECK(!name.starts_with("train/") && !name.starts_with("eval/"), ErrorKind::kRun,
              "log: {} is reserved (train/ and eval/); log another name, or return metrics from a step", name);
    lua_getfield(state, 2, name.c_str());
    if (tensors != nullptr && is_tensor(state, -1)) {
      tensors->log(name, tensor_value(state, -1, name));
    } else {
      RUN_CHECK(
          !is_tensor(state, -1), ErrorKind::kRun,
          "log: {0} is a tensor, expected a number; return it from the step as a metric, or log {0}:item() (events "
          "can log tensors, and a custom loop while it processes a training batch)",
          name);
      RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER, ErrorKind::kRun, "log: {} is {}, expected a number", name,
                type_name(state, -1));
      loop != nullptr ? loop->log(name, lua_tonumber(state, -1)) : run.log(name, lua_tonumber(state, -1));
    }
    lua_pop(state, 1);
  }
  return 0;
}

int set_trigger(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  accelerator.triggered = true;
  accelerator.loop != nullptr ? accelerator.loop->allow_early_return() : run_of(accelerator, "set_trigger").stop();
  return 0;
}

// acc:save_state([name])
int save_state(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  std::string name;
  if (!lua_isnoneornil(state, 2)) {
    name = text_argument(state, 2);
    check_name(name, "save_state", "a state");
    RUN_CHECK(store::is_state_name(name), ErrorKind::kRun,
              "save_state: a state cannot be named '{}', because --state {} selects another one; use a name such as "
              "'{}-state'",
              name, name, name);
  }
  accelerator.loop != nullptr ? accelerator.loop->save(name) : run_of(accelerator, "save_state").save(name);
  return 0;
}

// acc:save_artifact(name, text [, kind])
int save_artifact(lua_State* state) {
  train::HookRun& run = run_of(accelerator_argument(state), "save_artifact");
  const std::string name(text_argument(state, 2));
  const std::string_view text = text_argument(state, 3);
  const std::string_view kind = text_argument(state, 4, "");
  const auto bytes = std::as_bytes(std::span(text));
  run.save_artifact(name, kind, {bytes.begin(), bytes.end()});
  return 0;
}

// acc:save_model([folder [, max_shard_size]])
int save_model(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  const std::string folder(text_argument(state, 2, ""));
  const int64_t most = lua_isnoneornil(state, 3)
                           ? formats::kDefaultShardSize
                           : formats::shard_size(text_argument(state, 3), "acc:save_model: max_shard_size");
  if (accelerator.loop != nullptr) accelerator.loop->mark_step();  // traced operations may change the model
  run_of(accelerator, "save_model")
      .save_model(folder.empty() ? "model.safetensors" : folder + "/model.safetensors", most);
  return 0;
}

// acc:grad(loss, x): gradients of the sum of the loss by a tensor, or by each tensor of a list.
int grad(lua_State* state) {
  accelerator_argument(state);
  recording_of(state, "a gradient").mark_line(state);
  const Value loss = tensor_argument(state, 2);
  const bool is_list = lua_istable(state, 3);
  std::vector<Value> inputs;
  if (!is_list) inputs.push_back(tensor_argument(state, 3));
  for (int64_t i = 1, size = is_list ? list_size(state, 3, "the inputs of grad") : 0; i <= size; ++i) {
    lua_rawgeti(state, 3, i);
    inputs.push_back(tensor_value(state, -1, fmt::format("input {}", i)));
    lua_pop(state, 1);
  }
  for (const Value value : inputs)
    RUN_CHECK(is_float(loss.dtype()) && is_float(value.dtype()), ErrorKind::kRun,
              "grad: expected floats, got a loss {} and an input {}", loss.type(), value.type());
  const std::vector<Value> gradients = backends::differentiate(loss, backends::ops::full_like(loss, 1.0), inputs);
  if (is_list) lua_createtable(state, static_cast<int>(gradients.size()), 0);
  for (size_t i = 0; i < gradients.size(); ++i) {
    RUN_CHECK(bool{gradients[i]}, ErrorKind::kRun,
              "grad: the loss does not depend on {}; compute it from this tensor, without detach()",
              is_list ? fmt::format("input {}", i + 1) : "the input");
    push_tensor(state, gradients[i]);
    if (is_list) lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

int register_for_checkpointing(lua_State* state) {
  run_of(accelerator_argument(state), "register_for_checkpointing");
  for (int i = 2; i <= lua_gettop(state); ++i) register_object(state, i);
  return 0;
}

constexpr AcceleratorMethod kAcceleratorMethods[] = {
    {"print", bound<accelerator_print>, "acc:print(value...)", "Prints a line, in process 0 only."},
    {"log", bound<log>, "acc:log({name = number, ...} [, step])",
     "Records metric points, from process 0 only; in events and `train` also scalar tensors, in `train` at the step in "
     "progress."},
    {"set_trigger", bound<set_trigger>, "acc:set_trigger()",
     "Ends the run after this step and saves a state.  In `train`: see acc:check_trigger()."},
    {"register_for_checkpointing", bound<register_for_checkpointing>, "acc:register_for_checkpointing(table...)",
     "Adds the contents of a table to the states from now on; loading a state restores them."},
    {"save_artifact", bound<save_artifact>, "acc:save_artifact(name, text [, kind])",
     "Saves a text of process 0 with the run; `runner export RUN --artifact NAME` writes it to a file."},
    {"save_model", bound_in_loop<save_model>, "acc:save_model([folder [, max_shard_size]])",
     "Saves the model with the run as an artifact model.safetensors; as several files and an index if it is larger "
     "than \"10GB\", or the given size."},
    {"save_state", bound<save_state>, "acc:save_state([name])",
     "Saves a state at the end of this step; in on_run_begin and on_run_end, after the event. A state with a name is "
     "kept, until a later one gets the name."},
    {"grad", bound<grad>, "acc:grad(loss, x)",
     "The gradient of the sum of loss by the tensor x, or a list of them for a list; can be part of the loss."},
};

constexpr BatchField kBatchFields[] = {
    {"features", [](lua_State* state, const train::StepInputs& inputs) { push_tensor(state, inputs.features); }},
    {"labels", [](lua_State* state, const train::StepInputs& inputs) { push_tensor(state, inputs.labels); }},
    {"mask", [](lua_State* state, const train::StepInputs& inputs) { push_tensor(state, inputs.mask); }},
    {"ids", [](lua_State* state, const train::StepInputs& inputs) { push_tensor(state, inputs.sample_ids); }},
    {"size", [](lua_State* state, const train::StepInputs& inputs) { push_integer(state, inputs.mask.shape()[0]); }},
};

std::array<std::span<const AcceleratorField>, 2> field_tables() {
  return {kAcceleratorFields, loop_fields()};
}

std::array<std::span<const AcceleratorMethod>, 3> method_tables() {
  return {kAcceleratorMethods, loop_methods(), process_methods()};
}

// Members of Accelerate that acc does not have, and what to do instead.
struct OtherMember {
  std::string_view name;
  const char* instead;
};
constexpr OtherMember kOtherMembers[] = {
    {"prepare", "it is not needed: use acc.model, acc.optimizer, acc.scheduler and acc:batches(), which are prepared"},
    {"prepare_model", "it is not needed: use acc.model, which is prepared"},
    {"prepare_optimizer", "it is not needed: use acc.optimizer, which is prepared"},
    {"prepare_scheduler", "it is not needed: use acc.scheduler, which is prepared"},
    {"prepare_data_loader", "it is not needed: acc:batches() gives each process its part of the data"},
    {"unwrap_model", "it is not needed: acc.model has no wrapper"},
    {"trigger_sync_in_backward", "it is not needed: the end of an optimizer step all-reduces the gradients"},
    {"unscale_gradients", "it is not needed: gradients are unscaled before they are used"},
    {"skip_first_batches", "it is not needed: a resumed run continues with the next batch"},
    {"free_memory", "it is not needed: a run frees its memory at its end"},
    {"clear", "it is not needed: a run frees its memory at its end"},
    {"init_trackers", "it is not needed: set trackers in the recipe, and call acc:log{name = number}"},
    {"get_tracker", "it is not needed: set trackers in the recipe, and call acc:log{name = number}"},
    {"end_training", "it is not needed: the run ends when `train` returns"},
    {"clip_grad_norm_", "use acc:clip_grad_norm(limit)"},
    {"clip_grad_value_", "use acc:clip_grad_value(limit)"},
    {"join_uneven_inputs", "use acc:join({even_batches = false}, f)"},
    {"get_state_dict", "use acc:save_model(), or acc:save_state() for the whole run"},
    {"save", "use acc:save_artifact(name, text), or acc:save_model() for weights"},
    {"register_save_state_pre_hook", "define state_dict in a table for acc:register_for_checkpointing(table)"},
    {"register_load_state_pre_hook", "define load_state_dict in a table for acc:register_for_checkpointing(table)"},
    {"on_local_main_process", "use acc:on_main_process(f): all processes are on one machine"},
    {"local_main_process_first", "use acc:main_process_first(f): all processes are on one machine"},
    {"on_process", "use `if acc.process_index == …`"},
    {"on_local_process", "use `if acc.process_index == …`"},
    {"on_last_process", "use `if acc.process_index == acc.num_processes - 1`"},
    {"is_last_process", "compare acc.process_index with acc.num_processes - 1"},
    {"local_process_index", "use acc.process_index: all processes are on one machine"},
    {"use_distributed", "compare acc.num_processes with 1"},
    {"multi_device", "compare acc.num_processes with 1"},
    {"distributed_type", "use acc.backend and acc.num_processes"},
    {"mixed_precision", "it is the setting mixed_precision of the recipe"},
};

int accelerator_field(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  const std::string_view name = key_argument(state, kAcceleratorName);
  for (const auto& table : field_tables())
    for (const AcceleratorField& field : table)
      if (name == field.name) return field.push(state, accelerator);
  for (const auto& table : method_tables()) {
    for (const AcceleratorMethod& known : table) {
      if (name != known.name) continue;
      lua_pushcfunction(state, known.function);
      return 1;
    }
  }
  for (const auto& [other, instead] : kOtherMembers)
    RUN_CHECK(name != other, ErrorKind::kRun, "acc has no '{}'; {}", name, instead);
  fail_unknown("acc has no", name, names_of(accelerator_names()), "docs/lua.md lists its entries");
}

int set_field(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  const std::string_view name = key_argument(state, kAcceleratorName);
  for (const auto& table : field_tables())
    for (const AcceleratorField& field : table)
      if (name == field.name && field.set != nullptr) return field.set(state, accelerator, 3), 0;
  fail(ErrorKind::kRun, "acc.{} cannot be set; keep your own values in a local table", name);
}

}  // namespace

std::span<const BatchField> batch_fields() {
  return kBatchFields;
}

std::span<const AcceleratorName> accelerator_names() {
  static const std::vector<AcceleratorName> names = [] {
    std::vector<AcceleratorName> all;
    for (const auto& table : field_tables())
      for (const AcceleratorField& field : table) all.push_back({field.name, "", field.text});
    for (const auto& table : method_tables())
      for (const AcceleratorMethod& method : table) all.push_back({method.name, method.usage, method.text});
    return all;
  }();
  return names;
}

// The userdata of `acc` is a pointer to the Accelerator.
Accelerator& accelerator_argument(lua_State* state) {
  auto* object = static_cast<Accelerator**>(luaL_testudata(state, 1, kAcceleratorName));
  if (object == nullptr) bad_argument(state, 1, "acc: call it as acc:name(…), with a colon");
  return **object;
}

train::HookRun& run_of(const Accelerator& accelerator, std::string_view what) {
  RUN_CHECK(!accelerator.is_replayed, ErrorKind::kRun,
            "acc.{} cannot be used in a step that is traced once (tpu.trace_once): later steps would reuse the current "
            "value; use it in an event such as on_step_end, or disable tpu.trace_once",
            what);
  RUN_CHECK(accelerator.run != nullptr, ErrorKind::kRun, "acc.{} is not available here: no run is in progress", what);
  return *accelerator.run;
}

train::CustomLoop& loop_of(const Accelerator& accelerator, std::string_view what) {
  RUN_CHECK(accelerator.loop != nullptr, ErrorKind::kRun,
            "acc.{} is only available in a custom loop, the hook entry `train`; here the recipe's loop runs", what);
  return *accelerator.loop;
}

train::HookTensors& tensors_of(const Accelerator& accelerator, std::string_view what) {
  RUN_CHECK(accelerator.tensors != nullptr, ErrorKind::kRun,
            "acc.{} is only available in events and in a custom loop, the hook entry `train`; here the recipe's loop "
            "runs",
            what);
  return *accelerator.tensors;
}

Raise raise_in_loop(lua_State* state) {
  lua_rawgetp(state, LUA_REGISTRYINDEX, &kAccelerator);
  const auto* accelerator = static_cast<const Accelerator*>(lua_touserdata(state, -1));
  lua_pop(state, 1);
  const bool has_step = Runtime::of(state).recording->active();
  return accelerator->loop != nullptr && !has_step ? Raise::kEndsRun : Raise::kCaught;
}

void set_model(lua_State* state, nn::ModulePtr model) {
  push_module(state, std::move(model));
  lua_setfield(state, LUA_REGISTRYINDEX, kModel);
}

void push_accelerator(lua_State* state, Accelerator& accelerator) {
  auto** object = static_cast<Accelerator**>(lua_newuserdatauv(state, sizeof(void*), 0));
  *object = &accelerator;
  if (luaL_newmetatable(state, kAcceleratorName) != 0) {
    set_function(state, "__index", bound<accelerator_field>);
    set_function(state, "__newindex", bound<set_field>);
    protect_metatable(state);
    for (const auto& table : method_tables())
      for (const AcceleratorMethod& method : table)
        name_function(state, method.name, method.function, most_arguments(method.usage));
  }
  lua_setmetatable(state, -2);
  lua_pushlightuserdata(state, &accelerator);
  lua_rawsetp(state, LUA_REGISTRYINDEX, &kAccelerator);
}

void push_map(lua_State* state, const schema::ValueMap& map) {
  lua_createtable(state, 0, static_cast<int>(map.size()));
  for (const auto& [name, value] : map) {
    push_value(state, value);
    lua_setfield(state, -2, name.c_str());
  }
}

void push_value(lua_State* state, const schema::Value& value) {
  luaL_checkstack(state, 4, "a value of the recipe is nested too deeply");  // for this call; lists and maps recurse
  if (value.boolean() != nullptr) {
    lua_pushboolean(state, *value.boolean());
  } else if (value.integer() != nullptr) {
    lua_pushinteger(state, *value.integer());
  } else if (value.number() != nullptr) {
    lua_pushnumber(state, *value.number());
  } else if (value.text() != nullptr) {
    push_text(state, *value.text());
  } else if (value.map() != nullptr) {
    push_map(state, *value.map());
  } else if (value.list() != nullptr) {
    lua_createtable(state, static_cast<int>(value.list()->size()), 0);
    lua_Integer at = 0;
    for (const schema::Value& element : *value.list()) {
      push_value(state, element);
      lua_rawseti(state, -2, ++at);
    }
  } else {
    lua_pushnil(state);
  }
}

}  // namespace runner::lua
