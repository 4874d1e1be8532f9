#include "runner/lua/hook_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <lua.hpp>

#include "runner/lua/accelerator.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/hook_table.h"
#include "runner/lua/libraries.h"
#include "runner/lua/modules.h"
#include "runner/lua/optimizers.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/recording.h"
#include "runner/lua/registered.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"
#include "runner/lua/step_result.h"
#include "runner/lua/tensor.h"
#include "runner/lua/transform.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/step/trace_once.h"

namespace runner::lua {
namespace {

using train::HookEntry;
using train::HookEvent;
using train::StepInputs;

constexpr const char* kHook = "runner.hook";  // registry key: the table that the file returned
constexpr const char* kAcc = "runner.acc";

// Describes the value at the top, which is not a number: "nil", "the string 'half'", "a table".
std::string described(lua_State* state) {
  if (lua_type(state, -1) == LUA_TSTRING) return fmt::format("the string '{}'", lua_tostring(state, -1));
  return lua_isnil(state, -1) ? "nil" : fmt::format("a {}", type_name(state, -1));
}

std::vector<SourceFile> in_folder(const std::filesystem::path& folder, const std::vector<train::HookSource>& sources) {
  std::vector<SourceFile> found;
  for (const train::HookSource& source : sources) found.push_back({(folder / source.path).string(), source.text});
  return found;
}

class LuaHooks : public train::Hooks {
 public:
  LuaHooks(const schema::Recipe& recipe, const std::vector<train::HookSource>& recorded, train::Print out,
           MetricsReport report)
      : recipe_(recipe),
        print_(std::move(out)),
        folder_(std::filesystem::path(recipe.hooks).parent_path()),
        runtime_({.folder = folder_,
                  .seed = static_cast<uint64_t>(recipe.seed),
                  .print = [this](std::string_view line) { print(line); },
                  .recorded = in_folder(folder_, recorded)}),
        accelerator_{recipe, report} {
    runtime_.recording = &recording_;
    runtime_.set_interrupted([this] { return interrupted(); });
    lua_State* const state = runtime_.state();
    open_libraries(runtime_);
    open_loop(state);
    runtime_.run_file(recipe.hooks);
    check_hook_table(state, runtime_.sources().front());
    for (size_t i = 0; i < has_.size(); ++i) {
      has_[i] = push_field(state, -1, hook_entries()[i].data());
      if (has_[i]) lua_pop(state, 1);
    }
    if (LuaHooks::has(HookEntry::kModes) && push_field(state, -1, "modes")) modes_ = take_modes(state);
    lua_setfield(state, LUA_REGISTRYINDEX, kHook);
    push_accelerator(state, accelerator_);
    lua_setfield(state, LUA_REGISTRYINDEX, kAcc);
    if (LuaHooks::has(HookEntry::kTransform)) transform_ = new_transform();
  }

  bool has(HookEntry entry) const override { return has_[place_of(entry)]; }
  bool has(HookEvent event) const override { return has_[place_of(event)]; }
  SourceMark line_of(HookEntry entry) const override { return line_of(hook_entries()[place_of(entry)]); }

  std::vector<train::HookSource> sources() const override {
    std::vector<train::HookSource> found;
    for (const SourceFile& source : runtime_.sources()) {
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
      if (!model.module->made_at().known()) model.module->set_made_at(line_of("model"));
      lua_pop(state, 1);
      model.module->declare(model.parameters, "");
      RUN_CHECK(!model.parameters.parameters().empty(), ErrorKind::kRun, "the model has no parameters to train");
    });
    use_model(model.module);
    return model;
  }

  train::Optimizers optimizers(const nn::Model& model, const data::Encoding& encoding) override {
    use_model(model.module);
    return with_line("optimizers", [&] {
      lua_State* const state = runtime_.state();
      push_entry("optimizers");
      push_module(state, model.module);
      push_configuration(state, encoding);
      runtime_.call(state, 2, 1);
      return take_optimizers(state, model, recipe_);
    });
  }

  train::StepLosses training_step(const StepInputs& inputs) override {
    return with_line("training_step", [&] { return record_training_step(inputs); });
  }

  train::StepPredictions evaluation_step(const StepInputs& inputs) override {
    const LoopHidden hidden(accelerator_);
    return with_line("evaluation_step", [&] { return record_evaluation_step(inputs); });
  }

  void on(HookEvent event, train::HookTensors& tensors) override {
    const LoopHidden hidden(accelerator_);
    const EventScope scope(*this, tensors);
    call_with_accelerator(hook_entries()[place_of(event)]);
  }

  std::optional<std::string> end_step(int64_t batches) override { return recording_.work().end_step(batches); }

  std::optional<bool> larger_is_better(std::string_view metric) const override {
    const auto found = modes_.find(metric.substr(metric.rfind('/') + 1));
    return found != modes_.end() ? std::optional(found->second) : std::nullopt;
  }

  std::map<std::string, double> metrics(const train::EvaluatedSet& set) override {
    const LoopHidden hidden(accelerator_);
    return with_line("metrics", [&] {
      push_entry("metrics");
      return whole_metrics(runtime_, set);
    });
  }

  double schedule(int64_t step, int64_t steps, const std::string& optimizer) override {
    const LoopHidden hidden(accelerator_);
    return with_line("schedule", [&] {
      lua_State* const state = runtime_.state();
      push_entry("schedule");
      lua_pushinteger(state, step);
      lua_pushinteger(state, steps);
      optimizer.empty() ? lua_pushnil(state) : (void)lua_pushlstring(state, optimizer.data(), optimizer.size());
      runtime_.call(state, 3, 1);
      constexpr const char* kExpected = "expected a factor of the learning rates, finite and at least 0";
      RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER, ErrorKind::kRun, "schedule returned {} for step {}, {}",
                described(state), step, kExpected);
      const double factor = lua_tonumber(state, -1);
      RUN_CHECK(std::isfinite(factor) && factor >= 0, ErrorKind::kRun, "schedule returned {} for step {}, {}",
                factor != factor ? "NaN" : lua_tostring(state, -1), step, kExpected);
      lua_pop(state, 1);
      return factor;
    });
  }

  void track_begin() override {
    each_tracker("start", 0, [] {});
  }
  void track(const std::map<std::string, double>& values, int64_t step) override {
    lua_State* const state = runtime_.state();
    each_tracker("log", 2, [&] {
      lua_createtable(state, 0, static_cast<int>(values.size()));
      for (const auto& [name, value] : values) {
        lua_pushnumber(state, value);
        lua_setfield(state, -2, name.c_str());
      }
      lua_pushinteger(state, step);
    });
  }
  void track_end(std::string_view status) override {
    each_tracker("finish", 1, [&] { lua_pushlstring(runtime_.state(), status.data(), status.size()); });
  }

  void train(train::CustomLoop& loop) override {
    accelerator_.loop = &loop;
    accelerator_.tensors = &loop;
    struct Ending {
      LuaHooks& hooks;
      ~Ending() {
        hooks.accelerator_.loop = nullptr;
        hooks.accelerator_.tensors = nullptr;
        hooks.recording_.end();
      }
    } const ending{*this};
    call_with_accelerator("train");
  }

  void record(const StepInputs* region) override {
    if (region == nullptr) return recording_.end();
    use_model(region->model);
    recording_.begin(runtime_.state(), region->forward, region->read);
    recording_.set_precision();
  }

  int64_t draw() const override { return recording_.draw(); }
  int64_t draw_again() override {
    recording_.draw_again(runtime_);
    return recording_.draw();
  }
  int64_t drawn() const override { return static_cast<int64_t>(runtime_.random_draws()); }
  void set_drawn(int64_t count) override { runtime_.set_random_draws(static_cast<uint64_t>(count)); }

  std::shared_ptr<data::Transform> transform() override {
    if (!has(HookEntry::kTransform)) return nullptr;
    return transform_ ? std::exchange(transform_, nullptr) : new_transform();
  }

  void attach(train::HookRun* run) override {
    accelerator_.run = run;
    if (run != nullptr) runtime_.set_seed(train::hook_seed(recipe_, run->ranks()));
  }

  // Contains the number of random draws and the registered objects.
  std::string state() override {
    const LoopHidden hidden(accelerator_);
    std::string text;
    runtime_.protect([&] {
      text = fmt::format("{{draws={},objects={}}}", runtime_.random_draws(), registered_text(runtime_.state()));
    });
    return text;
  }
  void restore(const std::string& state) override {
    runtime_.protect([&] { restore_text(state); });
  }
  void check_registered() override {
    runtime_.protect([&] { lua::check_registered(runtime_.state()); });
  }

 private:
  void restore_text(const std::string& state) {
    lua_State* const lua = runtime_.state();
    push_plain(lua, state);
    lua_getfield(lua, -1, "draws");
    runtime_.set_random_draws(static_cast<uint64_t>(lua_tointeger(lua, -1)));
    lua_pop(lua, 1);
    lua_getfield(lua, -1, "objects");
    restore_registered(lua);
    lua_pop(lua, 1);
  }

  // Calls `function` of each tracker that has it, with the tracker, acc, and the values that `push` pushes.
  template <class Push>
  void each_tracker(const char* function, int arguments, const Push& push) {
    const LoopHidden hidden(accelerator_);
    with_line("trackers", [&] {
      push_entry("trackers");
      call_trackers(runtime_, function, 1 + arguments, [&] {
        lua_getfield(runtime_.state(), LUA_REGISTRYINDEX, kAcc);
        push();
      });
    });
  }

  // name(acc)
  void call_with_accelerator(std::string_view name) {
    with_line(name, [&] {
      lua_State* const state = runtime_.state();
      push_entry(name);
      lua_getfield(state, LUA_REGISTRYINDEX, kAcc);
      runtime_.call(state, 1, 0);
    });
  }

  // Hides the custom loop during events and steps of the run, which happen between two parts of the loop.
  struct LoopHidden {
    explicit LoopHidden(Accelerator& accelerator)
        : accelerator_(accelerator),
          loop_(std::exchange(accelerator.loop, nullptr)),
          tensors_(std::exchange(accelerator.tensors, nullptr)) {}
    ~LoopHidden() {
      accelerator_.loop = loop_;
      accelerator_.tensors = tensors_;
    }
    LoopHidden(const LoopHidden&) = delete;
    LoopHidden& operator=(const LoopHidden&) = delete;

   private:
    Accelerator& accelerator_;
    train::CustomLoop* const loop_;
    train::HookTensors* const tensors_;
  };

  // While an event is called, its first tensor begins a recording.
  class EventScope {
   public:
    EventScope(LuaHooks& hooks, train::HookTensors& tensors) : hooks_(hooks) {
      hooks_.accelerator_.tensors = &tensors;
      hooks_.recording_.set_starter([&tensors] { tensors.inputs(); });
    }
    ~EventScope() {
      hooks_.recording_.set_starter(nullptr);
      hooks_.recording_.end();
    }
    EventScope(const EventScope&) = delete;
    EventScope& operator=(const EventScope&) = delete;

   private:
    LuaHooks& hooks_;
  };

  // Runs `body`, which calls an entry of the hook. An error without a line gets the line where the entry is defined.
  template <class Body>
  std::invoke_result_t<Body> with_line(std::string_view entry, const Body& body) {
    using Result = std::invoke_result_t<Body>;
    try {
      if constexpr (std::is_void_v<Result>) {
        runtime_.protect(body);
      } else {
        std::optional<Result> result;
        runtime_.protect([&] { result.emplace(body()); });
        return std::move(*result);
      }
    } catch (const Error& error) {
      if (error.where().known() || is_run_error(error)) throw;
      throw Error(error).locate(line_of(entry));
    }
  }

  SourceMark line_of(std::string_view entry) const {
    push_entry(entry);
    if (lua_isfunction(runtime_.state(), -1)) return place_of_function(runtime_.state());
    lua_pop(runtime_.state(), 1);
    return {};
  }

  bool traces_once() const { return train::traces_once(recipe_); }

  // Marks a call of a step that may be replayed. Rejects values that would differ in the next step.
  class ReplayedCall {
   public:
    explicit ReplayedCall(LuaHooks& hooks) : hooks_(hooks) {
      hooks_.accelerator_.is_replayed = hooks_.traces_once();
      if (hooks_.traces_once()) hooks_.runtime_.set_random_source(refuse_random);
    }
    ~ReplayedCall() {
      hooks_.accelerator_.is_replayed = false;
      hooks_.runtime_.set_random_source({});
    }
    ReplayedCall(const ReplayedCall&) = delete;
    ReplayedCall& operator=(const ReplayedCall&) = delete;

   private:
    [[noreturn]] static uint64_t refuse_random() {
      fail(ErrorKind::kRun,
           "math.random cannot be used in a step that is traced once (tpu.trace_once): later steps would reuse the "
           "same numbers; use nn.rand, or disable tpu.trace_once");
    }

    LuaHooks& hooks_;
  };

  std::function<std::vector<double>(Value)> reader_of(const StepInputs& inputs) const {
    if (!traces_once()) return inputs.read;
    return [](Value) -> std::vector<double> {
      fail(ErrorKind::kRun,
           "item cannot be used in a step that is traced once (tpu.trace_once): later steps would reuse its value; "
           "disable tpu.trace_once");
    };
  }

  train::StepLosses record_training_step(const StepInputs& inputs) {
    const RecordingScope scope(runtime_, inputs.forward, reader_of(inputs));
    recording_.set_precision();
    const ReplayedCall call(*this);
    call_step("training_step", inputs);
    return take_losses(runtime_.state(), inputs);
  }

  train::StepPredictions record_evaluation_step(const StepInputs& inputs) {
    const RecordingScope scope(runtime_, inputs.forward, reader_of(inputs));
    recording_.set_precision();
    const ReplayedCall call(*this);
    call_step("evaluation_step", inputs);
    return take_predictions(runtime_.state(), inputs);
  }

  void use_model(const nn::ModulePtr& model) {
    if (std::exchange(accelerator_.model, model) != model) set_model(runtime_.state(), model);
  }

  std::shared_ptr<data::Transform> new_transform() {
    return make_transform(
        recipe_, runtime_.sources(), [this](std::string_view line) { print(line); }, [this] { return interrupted(); });
  }

  // Thread safety: transforms call this on their own thread, which exists while the run is attached.
  bool interrupted() const { return accelerator_.run != nullptr && accelerator_.run->must_end(); }

  // In a run with several processes, prefixes each line with the rank.
  void print(std::string_view line) {
    if (accelerator_.run != nullptr) {
      const backends::ProcessGroup* const ranks = accelerator_.run->ranks();
      accelerator_.run->print(ranks != nullptr ? fmt::format("rank {}: {}", ranks->rank(), line) : std::string(line));
    } else if (print_) {
      print_(line);
    }
  }

  void push_entry(std::string_view name) const {
    lua_State* const state = runtime_.state();
    lua_getfield(state, LUA_REGISTRYINDEX, kHook);
    lua_getfield(state, -1, name.data());
    lua_remove(state, -2);
  }

  template <class T, class Push>
  static void set_list(lua_State* state, const char* name, const std::vector<T>& values, Push push) {
    lua_createtable(state, static_cast<int>(values.size()), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      push(values[i]);
      lua_rawseti(state, -2, static_cast<lua_Integer>(i) + 1);
    }
    lua_setfield(state, -2, name);
  }

  // Sets cfg.classes, cfg.vocabulary and cfg.data: what the encoding knows about the data.
  static void set_data(lua_State* state, const data::Encoding& encoding) {
    const auto push_text = [&](const std::string& text) { lua_pushlstring(state, text.data(), text.size()); };
    const auto push_number = [&](double value) { lua_pushnumber(state, value); };
    set_list(state, "classes", encoding.predicts_tokens() ? std::vector<std::string>() : encoding.classes(), push_text);
    set_list(state, "vocabulary", encoding.predicts_tokens() ? encoding.class_names : std::vector<std::string>(),
             push_text);
    const bool standard = encoding.normalize != schema::Normalize::kMinMax;
    lua_newtable(state);
    set_list(state, standard ? "mean" : "min", encoding.center, push_number);
    set_list(state, standard ? "std" : "range", encoding.spread, push_number);
    set_list(state, standard ? "min" : "mean", std::vector<double>(), push_number);
    set_list(state, standard ? "range" : "std", std::vector<double>(), push_number);
    refuse_unknown(state, "cfg.data");
    lua_setfield(state, -2, "data");
  }

  // Pushes `cfg`, the argument of `model` and `optimizers`.
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
    if (encoding.has_tokens()) {
      lua_pushinteger(state, encoding.vocabulary);
      lua_setfield(state, -2, "tokens");
    }
    lua_pushstring(state, recipe_.name.c_str());
    lua_setfield(state, -2, "name");
    lua_pushinteger(state, recipe_.seed);
    lua_setfield(state, -2, "seed");
    lua_pushinteger(state, recipe_.data.batch_size);
    lua_setfield(state, -2, "batch_size");
    set_data(state, encoding);
    refuse_unknown(state, "cfg");
  }

  // Calls name(acc, batch) and leaves the result at the top.
  void call_step(std::string_view name, const StepInputs& inputs) {
    lua_State* const state = runtime_.state();
    use_model(inputs.model);
    inputs.forward.program.set_mark(line_of(name));  // line of operations traced before the first line of the hook
    push_entry(name);
    lua_getfield(state, LUA_REGISTRYINDEX, kAcc);
    lua_createtable(state, 0, static_cast<int>(batch_fields().size()));
    for (const BatchField& field : batch_fields()) {
      field.push(state, inputs);
      lua_setfield(state, -2, field.name);
    }
    for (const nn::ModelInput& input : more_inputs(inputs)) {
      push_tensor(state, input.value);
      lua_setfield(state, -2, std::string(input.name).c_str());
    }
    refuse_unknown(state, "a batch");
    runtime_.call(state, 2, 1);
  }

  const schema::Recipe& recipe_;
  const train::Print print_;
  std::array<bool, place_of(HookEvent::kCount)> has_{};
  std::map<std::string, bool, std::less<>> modes_;  // take_modes()
  const std::filesystem::path folder_;              // folder of the hook file
  Recording recording_;
  Runtime runtime_;
  Accelerator accelerator_;  // declared after the runtime, which may keep modules of its model
  // The first transform, created with the hook so that its errors are reported then.
  std::shared_ptr<data::Transform> transform_;
};

}  // namespace

std::unique_ptr<train::Hooks> load_hooks(const schema::Recipe& recipe, const std::vector<train::HookSource>& recorded,
                                         train::Print print, MetricsReport report) {
  if (recipe.hooks.empty()) return nullptr;
  return std::make_unique<LuaHooks>(recipe, recorded, std::move(print), report);
}

train::MakeHooks hooks_maker(std::vector<train::HookSource> recorded, train::Print print, MetricsReport report) {
  return [recorded = std::move(recorded), print = std::move(print), report](const schema::Recipe& recipe) {
    return load_hooks(recipe, recorded, print, report);
  };
}

}  // namespace runner::lua
