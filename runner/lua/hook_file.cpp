#include "runner/lua/hook_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/graph/ops.h"
#include "backends/graph/type_text.h"
#include "runner/lua/accelerator.h"
#include "runner/lua/bind.h"
#include "runner/lua/modules.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/lua/tensor.h"
#include "runner/lua/whole_metrics.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using train::HookEvent;
using train::StepInputs;
using train::StepMetric;

constexpr const char* kHook = "runner.hook";  // registry: the table that the file returned
constexpr const char* kAcc = "runner.acc";

// Entries of the table; those from kFirstEvent on are events, in the order of enum HookEvent.
enum Entry : size_t { kModel, kTrainingStep, kEvaluationStep, kMetrics, kFirstEvent };
constexpr std::string_view kEntries[] = {"model",        "training_step",  "evaluation_step", "metrics",
                                         "on_run_begin", "on_epoch_begin", "on_step_end",     "on_evaluation",
                                         "on_epoch_end", "on_run_end"};
static_assert(std::size(kEntries) == kFirstEvent + train::kEventCount);

// Tensors exist while this does.
class Scope {
 public:
  Scope(Runtime& runtime, const StepInputs& inputs) : recording_(*static_cast<Recording*>(runtime.user)) {
    recording_.begin(runtime.state(), inputs.forward, inputs.read);
  }
  ~Scope() { recording_.end(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Recording& recording_;
};

std::vector<Source> in_folder(const std::filesystem::path& folder, const std::vector<train::HookSource>& sources) {
  std::vector<Source> found;
  for (const train::HookSource& source : sources) found.push_back({(folder / source.path).string(), source.text});
  return found;
}

class LuaHooks : public train::Hooks {
 public:
  LuaHooks(const schema::Recipe& recipe, const std::vector<train::HookSource>& recorded)
      : recipe_(recipe),
        folder_(std::filesystem::path(recipe.hooks).parent_path()),
        accelerator_{recipe},
        runtime_({.folder = folder_,
                  .seed = static_cast<uint64_t>(recipe.seed),
                  .print = [this](std::string_view line) { print(line); },
                  .recorded = in_folder(folder_, recorded)}) {
    runtime_.user = &recording_;
    lua_State* const state = runtime_.state();
    open_tensors(state);
    open_modules(state);
    runtime_.add_module("nn", open_nn);
    runtime_.run_file(recipe.hooks);
    check_table(state);
    lua_setfield(state, LUA_REGISTRYINDEX, kHook);
    push_accelerator(state, accelerator_);
    lua_setfield(state, LUA_REGISTRYINDEX, kAcc);
  }

  bool has_model() const override { return has_[kModel]; }
  bool has_training_step() const override { return has_[kTrainingStep]; }
  bool has_evaluation_step() const override { return has_[kEvaluationStep]; }
  bool has_metrics() const override { return has_[kMetrics]; }
  bool has(HookEvent event) const override { return has_[kFirstEvent + static_cast<size_t>(event)]; }

  std::vector<train::HookSource> sources() const override {
    std::vector<train::HookSource> found;
    for (const Source& source : runtime_.sources()) {
      const auto path = std::filesystem::path(source.path).lexically_normal();
      found.push_back({path.lexically_relative(folder_.lexically_normal()).string(), source.text});
    }
    return found;
  }

  nn::Model model(const data::Encoding& encoding) override {
    lua_State* const state = runtime_.state();
    nn::Model model;
    with_line("model", [&] {
      push_entry("model");
      push_configuration(state, encoding);
      runtime_.call(state, 1, 1);
      model.module = model_at_top(state);
      lua_pop(state, 1);
      model.module->declare(model.parameters, "");
      RUN_CHECK(!model.parameters.parameters().empty(), ErrorKind::kRun, "model: it has no parameters to train");
    });
    use_model(model.module);
    return model;
  }

  train::StepLosses training_step(const StepInputs& inputs) override {
    return with_line("training_step", [&] { return record_training_step(inputs); });
  }

  train::StepPredictions evaluation_step(const StepInputs& inputs) override {
    return with_line("evaluation_step", [&] { return record_evaluation_step(inputs); });
  }

  void on(HookEvent event) override {
    const std::string_view name = kEntries[kFirstEvent + static_cast<size_t>(event)];
    with_line(name, [&] {
      lua_State* const state = runtime_.state();
      push_entry(name);
      lua_getfield(state, LUA_REGISTRYINDEX, kAcc);
      runtime_.call(state, 1, 0);
    });
  }

  std::map<std::string, double> metrics(const train::EvaluatedSet& set) override {
    push_entry("metrics");
    return whole_metrics(runtime_, set);
  }

  void attach(train::RunControl* run) override { accelerator_.run = run; }

  std::string state() const override { return std::to_string(runtime_.random_draws()); }
  void restore(const std::string& state) override {
    runtime_.set_random_draws(std::strtoull(state.c_str(), nullptr, 10));
  }

 private:
  // Runs what calls an entry of the hook; errors that no line of it made get the line where it is defined.
  template <class Body>
  std::invoke_result_t<Body> with_line(std::string_view entry, const Body& body) {
    try {
      return body();
    } catch (const Error& error) {
      if (error.where().known()) throw;
      throw Error(error.kind(), error.message(), definition_of(entry));
    }
  }

  SourceMark definition_of(std::string_view entry) {
    push_entry(entry);
    lua_Debug function{};
    lua_getinfo(runtime_.state(), ">S", &function);
    return {function.source + 1, function.linedefined, 0};
  }

  train::StepLosses record_training_step(const StepInputs& inputs) {
    const Scope scope(runtime_, inputs);
    lua_State* const state = runtime_.state();
    call_step("training_step", inputs);
    train::StepLosses step;
    if (is_tensor(state, -1)) {
      set_loss(step, inputs, tensor_value(state, -1, "the loss"), {});
    } else {
      RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun,
                "training_step returned {}, expected a loss: a tensor, or a table with `loss`", type_name(state, -1));
      const Value loss = field(state, "loss", "training_step returned a table whose `loss`");
      RUN_CHECK(bool{loss}, ErrorKind::kRun, "training_step returned a table without `loss`");
      set_loss(step, inputs, loss, field(state, "weight", "weight"));
      step.metrics = metrics(state, inputs, {"loss", "weight"});
    }
    lua_pop(state, 1);
    return step;
  }

  train::StepPredictions record_evaluation_step(const StepInputs& inputs) {
    const Scope scope(runtime_, inputs);
    lua_State* const state = runtime_.state();
    call_step("evaluation_step", inputs);
    train::StepPredictions step;
    if (is_tensor(state, -1)) {
      step.predictions = tensor_value(state, -1, "the predictions");
    } else {
      RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun,
                "evaluation_step returned {}, expected predictions: a tensor, or a table with `predictions`",
                type_name(state, -1));
      step.predictions = field(state, "predictions", "evaluation_step returned a table whose `predictions`");
      RUN_CHECK(bool{step.predictions}, ErrorKind::kRun, "evaluation_step returned a table without `predictions`");
      if (const Value targets = field(state, "targets", "targets")) set_targets(step, inputs, targets);
      const Value loss = field(state, "loss", "loss");
      if (loss) set_loss(step, inputs, loss, field(state, "weight", "weight"));
      step.metrics = metrics(state, inputs, {"predictions", "targets", "loss", "weight"});
    }
    step.predictions = ops::cast(step.predictions, DType::kF32);
    lua_pop(state, 1);
    return step;
  }

  void use_model(const nn::ModulePtr& model) {
    if (std::exchange(accelerator_.model, model) != model) set_model(runtime_.state(), model);
  }

  void print(std::string_view line) {
    if (accelerator_.run != nullptr) {
      accelerator_.run->print(line);
    } else {
      fmt::print(stderr, "{}\n", line);
    }
  }

  // Also notes which entries there are.
  void check_table(lua_State* state) {
    RUN_CHECK(lua_istable(state, -1), ErrorKind::kRecipe,
              "the hook {} returned {}, expected a table of functions: return {{ training_step = function(acc, batch) "
              "… end }}",
              recipe_.hooks, type_name(state, -1));
    try {
      check_keys(state, -1, "the hook", kEntries);
    } catch (const Error& error) {
      throw Error(ErrorKind::kRecipe, error.message(), {recipe_.hooks, 1, 0});
    }
    for (size_t i = 0; i < std::size(kEntries); ++i) {
      has_[i] = push_field(state, -1, kEntries[i].data());
      if (!has_[i]) continue;
      if (i == kMetrics) {
        check_whole_metrics(state, recipe_.hooks);
        lua_pop(state, 1);
        continue;
      }
      RUN_CHECK(lua_isfunction(state, -1), ErrorKind::kRecipe, "the hook {}: {} is {}, expected a function",
                recipe_.hooks, kEntries[i], type_name(state, -1));
      lua_pop(state, 1);
    }
  }

  void push_entry(std::string_view name) {
    lua_State* const state = runtime_.state();
    lua_getfield(state, LUA_REGISTRYINDEX, kHook);
    lua_getfield(state, -1, name.data());
    lua_remove(state, -2);
  }

  // What `model` is given.
  void push_configuration(lua_State* state, const data::Encoding& encoding) const {
    lua_newtable(state);
    push_map(state, recipe_.vars);
    lua_setfield(state, -2, "vars");
    lua_newtable(state);
    for (int axis = 0; axis < encoding.feature_shape.rank(); ++axis) {
      lua_pushinteger(state, encoding.feature_shape[axis]);
      lua_rawseti(state, -2, axis + 1);
    }
    lua_setfield(state, -2, "features");
    lua_pushinteger(state, encoding.outputs);
    lua_setfield(state, -2, "outputs");
    lua_pushstring(state, recipe_.name.c_str());
    lua_setfield(state, -2, "name");
    lua_pushinteger(state, recipe_.seed);
    lua_setfield(state, -2, "seed");
    lua_pushinteger(state, recipe_.data.batch_size);
    lua_setfield(state, -2, "batch_size");
  }

  // name(acc, batch); its result is at the top.
  void call_step(std::string_view name, const StepInputs& inputs) {
    lua_State* const state = runtime_.state();
    use_model(inputs.model);
    push_entry(name);
    lua_getfield(state, LUA_REGISTRYINDEX, kAcc);
    lua_createtable(state, 0, 5);
    const auto set = [&](const char* key, Value value) {
      push_tensor(state, value);
      lua_setfield(state, -2, key);
    };
    set("features", inputs.features);
    set("labels", inputs.labels);
    set("mask", inputs.mask);
    set("ids", inputs.sample_ids);
    lua_pushinteger(state, inputs.features.shape()[0]);
    lua_setfield(state, -2, "size");
    runtime_.call(state, 2, 1);
  }

  // A tensor in the table at the top; unset where there is none.
  static Value field(lua_State* state, const char* name, std::string_view what) {
    if (!push_field(state, -1, name)) return {};
    Value value;
    if (lua_type(state, -1) == LUA_TNUMBER) {
      auto& program = recording_of(state, "a tensor").program();
      value = {&program, program.constant(lua_tonumber(state, -1), {DType::kF32, {}})};
    } else {
      value = tensor_value(state, -1, what);
    }
    lua_pop(state, 1);
    return value;
  }

  // Σ over all axes but the first, and how many elements that is for each sample.
  static Value by_sample(Value x) {
    std::array<int64_t, Shape::kMaxRank> axes{};
    const auto rank = static_cast<size_t>(x.shape().rank());
    for (size_t i = 1; i < rank; ++i) axes[i - 1] = static_cast<int64_t>(i);
    return rank <= 1 ? x : ops::sum(x, std::span(axes).first(rank - 1));
  }

  // loss: (), (B) or (B, …).  Without a weight a scalar is the mean over the samples, and an element counts 1; with
  // one, both are sums.
  template <class Step>
  static void set_loss(Step& step, const StepInputs& inputs, Value loss, Value weight) {
    RUN_CHECK(is_float(loss.dtype()), ErrorKind::kRun, "the loss is {}, expected a tensor of floats", loss.type());
    loss = ops::cast(loss, DType::kF32);
    const int64_t batch = inputs.mask.shape()[0];
    if (loss.shape().rank() == 0) {
      const Value samples = ops::sum(inputs.mask);
      if (weight && weight.shape().rank() > 0)
        weight = ops::sum(ops::mul(by_sample(ops::cast(weight, DType::kF32)), inputs.mask));
      step.losses = weight ? loss : ops::mul(loss, samples);
      step.weights = weight ? ops::cast(weight, DType::kF32) : samples;
      return;
    }
    RUN_CHECK(loss.shape()[0] == batch, ErrorKind::kRun,
              "the loss is {}, but the batch has {} samples: expected one loss for each, or a scalar", loss.type(),
              batch);
    RUN_CHECK(!weight || weight.shape() == loss.shape(), ErrorKind::kRun,
              "the weight is {}, expected the shape of the loss {}", weight.type(), loss.type());
    step.losses = by_sample(loss);
    step.weights = by_sample(weight ? ops::cast(weight, DType::kF32) : ops::full_like(loss, 1.0));
  }

  static void set_targets(train::StepPredictions& step, const StepInputs& inputs, Value targets) {
    RUN_CHECK(targets.type() == inputs.labels.type(), ErrorKind::kRun, "targets is {}, expected {} as the labels are",
              targets.type(), inputs.labels.type());
    step.targets = targets;
  }

  // The other entries of the table at the top: one value, or one for each sample, and their mean over the samples.
  static std::vector<StepMetric> metrics(lua_State* state, const StepInputs& inputs,
                                         std::initializer_list<std::string_view> taken) {
    std::vector<std::string> names;
    lua_pushnil(state);
    while (lua_next(state, -2) != 0) {
      lua_pop(state, 1);
      RUN_CHECK(lua_type(state, -1) == LUA_TSTRING, ErrorKind::kRun,
                "a step returned a table with the key {}: names are texts", type_name(state, -1));
      const std::string name = lua_tostring(state, -1);
      if (std::find(taken.begin(), taken.end(), name) == taken.end()) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    std::vector<StepMetric> metrics;
    for (const std::string& name : names) metrics.push_back(metric(inputs, name, field(state, name.c_str(), name)));
    return metrics;
  }

  static StepMetric metric(const StepInputs& inputs, const std::string& name, Value value) {
    const Value samples = ops::cast(ops::sum(inputs.mask), DType::kF64);
    value = ops::cast(value, DType::kF32);
    if (value.shape().elements() == 1 && value.shape().rank() <= 1)
      return {name, ops::mul(ops::cast(ops::reshape(value, Shape{}), DType::kF64), samples), samples};
    RUN_CHECK(value.shape() == inputs.mask.shape(), ErrorKind::kRun,
              "the metric {} is {}, expected a scalar or one value for each of {} samples", name, value.type(),
              inputs.mask.shape()[0]);
    return {name, ops::cast(ops::sum(ops::mul(value, inputs.mask)), DType::kF64), samples};
  }

  const schema::Recipe& recipe_;
  std::array<bool, std::size(kEntries)> has_{};
  const std::filesystem::path folder_;  // of the hook file
  Accelerator accelerator_;
  Recording recording_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<train::Hooks> load_hooks(const schema::Recipe& recipe, const std::vector<train::HookSource>& recorded) {
  if (recipe.hooks.empty()) return nullptr;
  return std::make_unique<LuaHooks>(recipe, recorded);
}

train::MakeHooks hooks_maker(std::vector<train::HookSource> recorded) {
  return [recorded = std::move(recorded)](const schema::Recipe& recipe) { return load_hooks(recipe, recorded); };
}

}  // namespace runner::lua
