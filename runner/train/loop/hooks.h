// A hook file, which may replace parts of a recipe's training. Implemented in runner/lua.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/transform.h"
#include "runner/train/step/step_hooks.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// A whole evaluation: S samples in the order of their ids, without padding.
struct EvaluatedSet {
  int64_t samples = 0;
  int64_t outputs = 0;             // N
  std::vector<float> predictions;  // (S, N)
  std::vector<int64_t> classes;    // (S); if empty, targets are set
  std::vector<float> targets;      // (S, N)
};

class CustomLoop;   // custom_loop.h
class HookTensors;  // hook_tensors.h
class HookRun;      // hook_run.h

// A file of a hook.
struct HookSource {
  std::string path;  // relative to the folder of the hook file: "steps.lua", "lib/tools.lua"
  std::string text;
};

enum class HookEvent {
  kRunBegin,
  kEpochBegin,
  kStepEnd,
  kEvaluation,
  kEpochEnd,
  kRunEnd,
  kCount  // number of events
};

// A member that is not overridden does nothing: the hook lacks the entry or event.
class Hooks : public StepHooks {
 public:
  using StepHooks::has;
  virtual bool has(HookEvent /*event*/) const { return false; }

  // Returns the files read so far.
  virtual std::vector<HookSource> sources() const { return {}; }

  // All of the following throw Error(kRun) with the line of the hook.

  // `tensors`: those of the event.
  virtual void on(HookEvent /*event*/, HookTensors& /*tensors*/) {}
  // Call after each optimizer step, of `batches` batches. Returns a warning the first time that the hook's work per
  // batch keeps growing.
  virtual std::optional<std::string> end_step(int64_t /*batches*/) { return std::nullopt; }
  // Returns the learning rate factor of an optimizer after `step` of `steps` steps. `optimizer`: its name, or "".
  virtual double schedule(int64_t /*step*/, int64_t /*steps*/, const std::string& /*optimizer*/) { return 1; }
  // Notify trackers that the run begins, of the points of a step, and of the run's status at its end.
  virtual void track_begin() {}
  virtual void track(const std::map<std::string, double>& /*values*/, int64_t /*step*/) {}
  virtual void track_end(std::string_view /*status*/) {}
  // Runs the whole training loop. Throws what the loop throws.
  virtual void train(CustomLoop& /*loop*/) {}
  // Sets the traced region that records tensor operations from now on; null: none.
  virtual void record(const StepInputs* /*region*/) {}
  // Metrics of a whole evaluation by name, without "eval/".
  virtual std::map<std::string, double> metrics(const EvaluatedSet& /*set*/) { return {}; }

  // The transform of training samples, for a loader; null if there is none.
  virtual std::shared_ptr<data::Transform> transform() { return nullptr; }

  // Sets the run that events refer to; null: none.
  virtual void attach(HookRun* /*run*/) {}
  // Throws if the restored state has more objects than are registered by now.
  virtual void check_registered() {}
};

// Prints a text of a hook and a newline, from any thread; null discards the text. Such texts may contain secrets
// (schema/base/secrets.h) and control sequences.
using Print = std::function<void(std::string_view text)>;

// Returns null if the recipe names no hook. Throws Error(kRecipe) with the line if the file cannot be used.
using MakeHooks = std::function<std::unique_ptr<Hooks>(const schema::Recipe& recipe)>;

}  // namespace runner::train
