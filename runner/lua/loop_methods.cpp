// Methods of `acc` for custom training loops, with the names of Accelerate.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "runner/lua/accelerator.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/train/loop/custom_loop.h"
#include "schema/base/duration.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"

namespace runner::lua {
namespace {

using train::CustomLoop;
using train::Split;

constexpr const char* kBatchName = "batch";
constexpr const char* kBatchesName = "acc:batches";
constexpr const char* kEpochsName = "epochs";
constexpr const char* kOptimizerName = "acc.optimizer";
constexpr const char* kOptimizersName = "acc.optimizers";
constexpr const char* kSchedulerName = "acc.scheduler";

CustomLoop& loop_argument(lua_State* state, std::string_view what) {
  return loop_of(accelerator_argument(state), what);
}

// Userdata of an object that `acc` returns: a T and the accelerator.
template <class T>
struct Part {
  Accelerator* accelerator;
  T value;
};

template <class T>
int push_part(lua_State* state, Accelerator& accelerator, T value, const char* name) {
  auto* part = static_cast<Part<T>*>(lua_newuserdatauv(state, sizeof(Part<T>), 0));
  *part = {&accelerator, value};
  luaL_setmetatable(state, name);
  return 1;
}

template <class T>
Part<T>& part_argument(lua_State* state, const char* name) {
  auto* part = static_cast<Part<T>*>(luaL_testudata(state, 1, name));
  if (part == nullptr) bad_argument(state, 1, fmt::format("{}: call it as {}:name(…), with a colon", name, name));
  return *part;
}

// ---- epochs and batches --------------------------------------------------------------------------------------------

Accelerator& upvalue_accelerator(lua_State* state) {
  return *static_cast<Accelerator*>(lua_touserdata(state, lua_upvalueindex(1)));
}

// Returns the next epoch, counted from 1 within this loop.
int next_epoch(lua_State* state) {
  const CustomLoop::Epochs epochs{lua_tointeger(state, lua_upvalueindex(2)), lua_tointeger(state, lua_upvalueindex(3))};
  Runtime::of(state).refill();
  const auto epoch = loop_of(upvalue_accelerator(state), "epochs").next_epoch(epochs);
  epoch ? lua_pushinteger(state, *epoch - epochs.first + 1) : lua_pushnil(state);
  return 1;
}

int epochs(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  std::optional<int64_t> count;
  if (!lua_isnoneornil(state, 2)) count = integer_argument(state, 2);
  RUN_CHECK(!count || *count >= 0, ErrorKind::kRun, "acc:epochs: expected a number of epochs, got {}", *count);
  const CustomLoop::Epochs epochs = loop_of(accelerator, "epochs").begin_epochs(count);
  lua_pushlightuserdata(state, &accelerator);
  lua_pushinteger(state, epochs.first);
  lua_pushinteger(state, epochs.end);
  lua_pushcclosure(state, bound_in_loop<next_epoch>, 3);
  lua_pushnil(state);
  lua_pushnil(state);
  push_part(state, accelerator, epochs.end, kEpochsName);  // __close calls end_epochs() when the loop ends
  return 4;
}

// __close of acc:epochs().
int end_epochs(lua_State* state) {
  const Part<int64_t>& loop = part_argument<int64_t>(state, kEpochsName);
  if (loop.accelerator->loop != nullptr) loop.accelerator->loop->end_epochs();
  return 0;
}

Accelerator::Batches& newest_of(Accelerator& accelerator, Split split) {
  return accelerator.newest[static_cast<size_t>(split)];
}

// The object that acc:batches() returns. A loop calls it for each batch; its length is the number of batches.
struct BatchLoop {
  Split split = Split::kTrain;
  int64_t count = 0;       // batches of the epoch, or of the evaluation data
  int64_t number = 0;      // compared with newest_of(); 0: not yet, because another loop was active
  bool has_begun = false;  // whether a batch was requested
};

// Returns whether the value at `index` is the newest loop over batches of `split`.
bool is_newest(lua_State* state, int index, Accelerator& accelerator, Split split) {
  const auto* loop = static_cast<const Part<BatchLoop>*>(luaL_testudata(state, index, kBatchesName));
  return loop != nullptr && loop->value.split == split && loop->value.number == newest_of(accelerator, split).number;
}

// Returns whether a `for` statement of an active Lua function iterates over the newest loop. Lua keeps the iterator in
// a local variable until the statement ends.
bool is_in_newest(lua_State* state, Accelerator& accelerator, Split split) {
  lua_Debug frame{};
  for (int level = 1; lua_getstack(state, level, &frame) != 0; ++level) {
    for (int local = 1; const char* name = lua_getlocal(state, &frame, local); ++local) {
      const bool is = is_newest(state, -1, accelerator, split) && std::string_view(name) == "(for state)";
      lua_pop(state, 1);
      if (is) return true;
    }
  }
  return false;
}

// Makes the loop the newest one.
void number_loop(lua_State* state, Accelerator& accelerator, BatchLoop& loop) {
  Accelerator::Batches& newest = newest_of(accelerator, loop.split);
  newest = {newest.number + 1, line_of_caller(state)};
  loop.number = newest.number;
}

// __call of the object.
int next_batch(lua_State* state) {
  auto& [accelerator, loop] = part_argument<BatchLoop>(state, kBatchesName);
  train::HookTensors& tensors = tensors_of(*accelerator, "batches");
  if (loop.number == 0) {
    RUN_CHECK(!is_in_newest(state, *accelerator, loop.split), ErrorKind::kRun,
              "acc:batches: the loop over {} batches started at {} has not ended; finish it or leave it with break",
              loop.split == Split::kEval ? "evaluation" : "training",
              newest_of(*accelerator, loop.split).begun.to_string());
    number_loop(state, *accelerator, loop);
  }
  RUN_CHECK(newest_of(*accelerator, loop.split).number == loop.number, ErrorKind::kRun,
            "acc:batches: this loop has ended, because another one was started at {}",
            newest_of(*accelerator, loop.split).begun.to_string());
  Runtime::of(state).refill();
  if (!std::exchange(loop.has_begun, true)) tensors.begin_batches(loop.split);
  const auto number = tensors.next_batch(loop.split);
  if (number) return push_part(state, *accelerator, *number, kBatchName);
  lua_pushnil(state);
  return 1;
}

// The iterator has no to-be-closed value, so CustomLoop itself detects that the loop was left. Reason: Lua 5.4.4
// confuses the to-be-closed values of nested loops if a closure captures the loop variable and break leaves the loop.
int batches(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  const std::string_view split = text_argument(state, 2, "train");
  RUN_CHECK(split == "train" || split == "eval", ErrorKind::kRun, "acc:batches: expected train or eval, got '{}'",
            split);
  BatchLoop loop{.split = split == "eval" ? Split::kEval : Split::kTrain};
  loop.count = tensors_of(accelerator, "batches").count_batches(loop.split);
  if (!is_in_newest(state, accelerator, loop.split)) number_loop(state, accelerator, loop);
  return push_part(state, accelerator, loop, kBatchesName);
}

// __len of the object.
int count_of_batches(lua_State* state) {
  return lua_pushinteger(state, part_argument<BatchLoop>(state, kBatchesName).value.count), 1;
}

int batch_field(lua_State* state) {
  const Part<int64_t>& batch = part_argument<int64_t>(state, kBatchName);
  const std::string_view name = key_argument(state, "a batch");
  const train::StepInputs& inputs = tensors_of(*batch.accelerator, "batches").inputs(batch.value);
  for (const BatchField& field : batch_fields())
    if (name == field.name) return field.push(state, inputs), 1;
  for (const nn::ModelInput& input : more_inputs(inputs))
    if (name == input.name) return push_tensor(state, input.value), 1;
  fail_unknown("a batch has no", name, names_of(batch_fields()));
}

// acc:parameters(): a table of tensors by name.
int parameters(lua_State* state) {
  const nn::ParameterSet& parameters = tensors_of(accelerator_argument(state), "parameters").parameters();
  const nn::ForwardContext& forward = record_here(state).forward();
  lua_createtable(state, 0, static_cast<int>(parameters.parameters().size()));
  for (size_t id = 0; id < parameters.parameters().size(); ++id) {
    push_tensor(state, forward.parameter(static_cast<nn::ParameterId>(id)));
    lua_setfield(state, -2, parameters.parameters()[id].name.c_str());
  }
  return 1;
}

int mark_step(lua_State* state) {
  tensors_of(accelerator_argument(state), "mark_step").mark_step();
  return 0;
}

// ---- an emulated TPU -----------------------------------------------------------------------------------------------

int metrics_report(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  const backends::tpu::TpuDeviceModel& tpu = tensors_of(accelerator, "metrics_report").tpu("metrics_report");
  RUN_CHECK(accelerator.report != nullptr || process_index(accelerator) != 0, ErrorKind::kRun,
            "acc:metrics_report: this command keeps no metrics report; start a run with `runner exec`");
  const std::string text =
      process_index(accelerator) == 0
          ? accelerator.report(tpu.metrics(), accelerator.recipe)
          : fmt::format("process {} keeps no metrics report; that of process 0 has the same graphs\n",
                        process_index(accelerator));
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

int ir(lua_State* state) {
  train::HookTensors& tensors = tensors_of(accelerator_argument(state), "ir");
  const std::string text = tensors.ir(tensor_argument(state, 2));
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

// ---- gradients -----------------------------------------------------------------------------------------------------

int backward(lua_State* state) {
  CustomLoop& loop = loop_argument(state, "backward");
  recording_of(state, "a loss").mark_line(state);
  loop.backward(tensor_argument(state, 2));
  return 0;
}

std::optional<int32_t> optional_optimizer(lua_State* state, int index) {
  if (lua_isnoneornil(state, index)) return std::nullopt;
  const auto* part = static_cast<const Part<int32_t>*>(luaL_testudata(state, index, kOptimizerName));
  if (part == nullptr) bad_argument(state, index, "an optimizer, or nil for all parameters");
  return part->value;
}

double limit_argument(lua_State* state, int index) {
  const double limit = number_argument(state, index);
  RUN_CHECK(limit > 0, ErrorKind::kRun, "{}: expected a limit greater than 0, got {}", called_as(state), shown(limit));
  return limit;
}

int clip_grad_norm(lua_State* state) {
  CustomLoop& loop = loop_argument(state, "clip_grad_norm");
  recording_of(state, "a gradient").mark_line(state);
  const Value norm = loop.clip_grad_norm(optional_optimizer(state, 3), limit_argument(state, 2));
  if (!norm) return 0;
  return push_tensor(state, norm);
}

int clip_grad_value(lua_State* state) {
  CustomLoop& loop = loop_argument(state, "clip_grad_value");
  recording_of(state, "a gradient").mark_line(state);
  loop.clip_grad_value(optional_optimizer(state, 3), limit_argument(state, 2));
  return 0;
}

// ---- optimizers and the schedule -----------------------------------------------------------------------------------

CustomLoop& loop_of_optimizer(lua_State* state, int32_t& number) {
  const Part<int32_t>& part = part_argument<int32_t>(state, kOptimizerName);
  number = part.value;
  recording_of(state, "an update").mark_line(state);
  return loop_of(*part.accelerator, "optimizer");
}

int optimizer_step(lua_State* state) {
  int32_t number = 0;
  loop_of_optimizer(state, number).step(number);
  return 0;
}

int zero_grad(lua_State* state) {
  int32_t number = 0;
  loop_of_optimizer(state, number).zero_grad(number);
  return 0;
}

int optimizer_entry(lua_State* state) {
  const Part<int32_t>& part = part_argument<int32_t>(state, kOptimizerName);
  const std::string_view name = key_argument(state, kOptimizerName);
  if (name == "step") return lua_pushcfunction(state, bound<optimizer_step>), 1;
  if (name == "zero_grad") return lua_pushcfunction(state, bound<zero_grad>), 1;
  if (name == "lr") return lua_pushnumber(state, loop_of(*part.accelerator, "optimizer").rate(part.value)), 1;
  fail(ErrorKind::kRun, "an optimizer has no '{}'; it has step(), zero_grad() and lr", name);
}

std::string known_optimizers(const std::vector<std::string>& names) {
  return fmt::format("acc.optimizers.{}", fmt::join(names, ", acc.optimizers."));
}

int push_optimizer(lua_State* state, Accelerator& accelerator) {
  const std::vector<std::string>& names = loop_of(accelerator, "optimizer").optimizers();
  RUN_CHECK(names.size() == 1, ErrorKind::kRun, "acc.optimizer is ambiguous: the hook has several optimizers: {}",
            known_optimizers(names));
  return push_part<int32_t>(state, accelerator, 0, kOptimizerName);
}

int push_optimizers(lua_State* state, Accelerator& accelerator) {
  loop_of(accelerator, "optimizers");
  return push_part(state, accelerator, 0, kOptimizersName);
}

int named_optimizer(lua_State* state) {
  Accelerator& accelerator = *part_argument<int>(state, kOptimizersName).accelerator;
  const std::vector<std::string>& names = loop_of(accelerator, "optimizers").optimizers();
  const std::string_view name = key_argument(state, kOptimizersName);
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return push_part(state, accelerator, static_cast<int32_t>(i), kOptimizerName);
  fail(ErrorKind::kRun, "unknown optimizer '{}'; {}", name,
       names == std::vector<std::string>{""} ? "the only one is acc.optimizer"
                                             : schema::did_you_mean(name, names, known_optimizers(names)));
}

int step_schedule(lua_State* state) {
  loop_of(*part_argument<int>(state, kSchedulerName).accelerator, "scheduler").step_schedule();
  return 0;
}

int last_rate(lua_State* state) {
  CustomLoop& loop = loop_of(*part_argument<int>(state, kSchedulerName).accelerator, "scheduler");
  lua_createtable(state, static_cast<int>(loop.optimizers().size()), 0);
  for (int32_t i = 0; i < std::ssize(loop.optimizers()); ++i) {
    lua_pushnumber(state, loop.rate(i));
    lua_rawseti(state, -2, i + 1);
  }
  return 1;
}

int scheduler_entry(lua_State* state) {
  const std::string_view name = key_argument(state, kSchedulerName);
  if (name == "step") return lua_pushcfunction(state, bound<step_schedule>), 1;
  if (name == "get_last_lr") return lua_pushcfunction(state, bound<last_rate>), 1;
  fail(ErrorKind::kRun, "the scheduler has no '{}'; it has step() and get_last_lr()", name);
}

int push_scheduler(lua_State* state, Accelerator& accelerator) {
  loop_of(accelerator, "scheduler");
  return push_part(state, accelerator, 0, kSchedulerName);
}

// ---- checkpoints and triggers --------------------------------------------------------------------------------------

int check_trigger(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  loop_of(accelerator, "check_trigger");
  bool triggered = std::exchange(accelerator.triggered, false);
  if (backends::ProcessGroup* const ranks = group_for_exchange(state, accelerator, "check_trigger"))
    triggered = ranks->any(triggered, site_of(state, accelerator, "check_trigger"));
  if (triggered) accelerator.loop->allow_early_return();
  lua_pushboolean(state, triggered);
  return 1;
}

int load_state(lua_State* state) {
  CustomLoop& loop = loop_argument(state, "load_state");
  std::string selector;  // empty: the newest
  if (lua_type(state, 2) == LUA_TSTRING) {
    selector = text_argument(state, 2);
    RUN_CHECK(!selector.empty(), ErrorKind::kRun,
              "load_state: the name of a state is empty; call acc:load_state() for the newest state");
  } else if (!lua_isnoneornil(state, 2)) {
    const std::optional<int64_t> id = integer_at(state, 2);
    if (!id) bad_argument(state, 2, "a name or the id of a state");
    selector = std::to_string(*id);
  }
  loop.load(selector);
  run_of(accelerator_argument(state), "load_state").weights_loaded(/*from_file=*/false);
  return 0;
}

// A list of {pattern, text}; none without an argument.
std::vector<schema::Rename> renames_argument(lua_State* state, int index) {
  std::vector<schema::Rename> renames;
  if (lua_isnoneornil(state, index)) return renames;
  constexpr const char* kExpected = "a list of {pattern, text}";
  if (!lua_istable(state, index)) bad_argument(state, index, kExpected);
  for (int64_t i = 1, size = list_size(state, index, "the renames of load_model"); i <= size; ++i) {
    lua_rawgeti(state, index, i);
    std::array<std::string, 2> texts;
    for (size_t part = 0; part < texts.size(); ++part) {
      const int type = lua_istable(state, -1) ? lua_rawgeti(state, -1, static_cast<lua_Integer>(part) + 1)
                                              : (lua_pushnil(state), LUA_TNIL);
      if (type != LUA_TSTRING) bad_argument(state, index, kExpected);
      texts[part] = lua_tostring(state, -1);
      lua_pop(state, 1);
    }
    lua_pop(state, 1);
    renames.push_back({texts[0], texts[1]});
  }
  return renames;
}

// acc:load_model(path [, renames])
int load_model(lua_State* state) {
  const Accelerator& accelerator = accelerator_argument(state);
  train::HookTensors& tensors = tensors_of(accelerator, "load_model");
  const std::string path(text_argument(state, 2)), folder(folder_of(accelerator.recipe.hooks));
  tensors.load_model({.path = join_path(folder, path),
                      .renames = renames_argument(state, 3),
                      .is_of_hook = true,
                      .root = folder.empty() ? "." : folder});
  run_of(accelerator, "load_model").weights_loaded(/*from_file=*/true);
  return 0;
}

// acc:profile(f): returns the results of f and prints a line with its cost.
int profile(lua_State* state) {
  Accelerator& accelerator = accelerator_argument(state);
  if (!lua_isfunction(state, 2)) bad_argument(state, 2, "a function");
  lua_settop(state, 2);
  loop_of(accelerator, "profile").mark_step();
  const CustomLoop::Cost before = accelerator.loop->cost();
  lua_call(state, 0, LUA_MULTRET);
  accelerator.loop->mark_step();
  const CustomLoop::Cost after = accelerator.loop->cost();
  run_of(accelerator, "profile")
      .print(fmt::format("profile: {}, {} program{} executed, {} of them compiled",
                         duration_text(after.seconds - before.seconds), after.runs - before.runs,
                         after.runs - before.runs == 1 ? "" : "s", after.compiled - before.compiled));
  return lua_gettop(state) - 1;
}

// ---- tables of fields and methods ----------------------------------------------------------------------------------

constexpr AcceleratorField kLoopFields[] = {
    {"optimizer", push_optimizer, "The optimizer: acc.optimizer:step(), acc.optimizer:zero_grad(), acc.optimizer.lr."},
    {"optimizers", push_optimizers,
     "The optimizers of the entry `optimizers`, if it returns several: acc.optimizers.NAME."},
    {"scheduler", push_scheduler,
     "The recipe's schedule: acc.scheduler:step(), acc.scheduler:get_last_lr(), a list of learning rates."},
    {"sync_gradients",
     [](lua_State* state, Accelerator& a) {
       return lua_pushboolean(state, loop_of(a, "sync_gradients").sync_gradients()), 1;
     },
     "Whether this batch is the last of an optimizer step; otherwise step, zero_grad and clipping do nothing."},
    {"optimizer_step_was_skipped",
     [](lua_State* state, Accelerator& a) {
       return lua_pushboolean(state, loop_of(a, "optimizer_step_was_skipped").step_was_skipped()), 1;
     },
     "Whether the newest step was skipped (train.on_nan: skip, or the fp16 scaler); reads a value then."},
};

constexpr AcceleratorMethod kLoopMethods[] = {
    {"epochs", bound_in_loop<epochs>, "acc:epochs([n])",
     "for epoch in acc:epochs(n): iterates over the next n epochs; without n, over all that are left. Counts from 1."},
    {"batches", bound_in_loop<batches>, "acc:batches([\"train\" or \"eval\"])",
     "for batch in acc:batches(\"train\"): iterates over the rest of the epoch, or all evaluation data. "
     "#acc:batches(\"train\") is the number of batches of a whole epoch."},
    {"parameters", bound<parameters>, "acc:parameters()",
     "The parameters of the model as a table: acc:parameters()[\"0.weight\"]."},
    {"backward", bound<backward>, "acc:backward(loss)",
     "Accumulates the gradients of a loss: a mean (), or one value for each sample."},
    {"clip_grad_norm", bound<clip_grad_norm>, "acc:clip_grad_norm(limit [, optimizer])",
     "Scales gradients to a norm of at most limit; returns the norm before clipping."},
    {"clip_grad_value", bound<clip_grad_value>, "acc:clip_grad_value(limit [, optimizer])",
     "Clips each gradient to [-limit, limit]."},
    {"check_trigger", bound<check_trigger>, "acc:check_trigger()",
     "Whether any process has called acc:set_trigger() since the last check. If so, `train` may return early."},
    {"load_model", bound_in_loop<load_model>, "acc:load_model(path [, renames])",
     "Loads the weights of the model from a safetensors file or the index of its shards, the same in every process. "
     "The path is relative to the folder of the hook, which contains the file.  Renames are like model.rename: "
     "{{\"module.*\", \"*\"}}."},
    {"load_state", bound_in_loop<load_state>, "acc:load_state([name or id])",
     "Loads model, optimizers and registered objects from a state of this run; default: the newest. \"best\" and "
     "\"best(METRIC)\" select as --state does."},
    {"profile", bound_in_loop<profile>, "acc:profile(f)",
     "Runs f, and prints its duration and the number of compilations."},
    {"mark_step", bound_in_loop<mark_step>, "acc:mark_step()",
     "Executes the recorded operations; earlier tensors become invalid."},
    {"metrics_report", bound<metrics_report>, "acc:metrics_report()",
     "The metrics report of an emulated TPU so far, as a text; in process 0."},
    {"ir", bound<ir>, "acc:ir(x)",
     "The operations recorded for the tensor x, as a text like that of torch_xla._XLAC._get_xla_tensors_text([x]); on "
     "a TPU."},
};

int no_assignment(lua_State* state) {
  const std::string_view kind = type_name(state, 1);
  const std::string name = text_of(state, 2);
  const bool rate = kind == kOptimizerName && name == "lr";
  fail(ErrorKind::kRun, "{}.{} cannot be set; {}", kind, name,
       rate ? "the learning rate follows the schedule: set scheduler.type: hook in the recipe, and define a function "
              "schedule(step, steps, optimizer) in the hook that returns the factor of the learning rate"
            : "keep your own values in a local table");
}

// Registers a read-only kind of object with one metamethod.
void register_kind(lua_State* state, const char* name, const char* event, int (*function)(lua_State*)) {
  luaL_newmetatable(state, name);
  set_function(state, event, function);
  set_function(state, "__newindex", bound<no_assignment>);
  protect_metatable(state);
  lua_pop(state, 1);
}

}  // namespace

std::span<const AcceleratorField> loop_fields() {
  return kLoopFields;
}

std::span<const AcceleratorMethod> loop_methods() {
  return kLoopMethods;
}

void open_loop(lua_State* state) {
  register_kind(state, kBatchName, "__index", bound<batch_field>);
  register_kind(state, kBatchesName, "__call", bound_in_loop<next_batch>);
  luaL_getmetatable(state, kBatchesName);
  set_function(state, "__len", bound<count_of_batches>);
  lua_pop(state, 1);
  register_kind(state, kEpochsName, "__close", bound<end_epochs>);
  register_kind(state, kOptimizerName, "__index", bound<optimizer_entry>);
  register_kind(state, kOptimizersName, "__index", bound<named_optimizer>);
  register_kind(state, kSchedulerName, "__index", bound<scheduler_entry>);
  constexpr NamedFunction kEntries[] = {{"step", bound<optimizer_step>},
                                        {"zero_grad", bound<zero_grad>},
                                        {"step", bound<step_schedule>},
                                        {"get_last_lr", bound<last_rate>}};
  for (const NamedFunction& entry : kEntries) name_function(state, entry.name, entry.function, /*most=*/1);
}

}  // namespace runner::lua
