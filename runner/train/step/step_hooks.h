// The entries of a hook, and what steps need of it: models, optimizers, recorded steps, random draws, kept state.
// loop/hooks.h has the rest. Implemented in runner/lua.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dist/process_group.h"
#include "runner/data/encoding.h"
#include "runner/data/transform.h"
#include "runner/model/models.h"
#include "runner/train/step/optimizers.h"
#include "schema/base/source_mark.h"
#include "schema/recipe/metric_names.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

using backends::Value;

// The batch of a step under construction.
struct StepInputs {
  nn::ForwardContext& forward;
  const nn::ModulePtr& model;
  Value features;                                  // first of forward.inputs: (B, …) f32; for text (B, T) i64
  Value labels;                                    // as BatchInput::kLabels
  Value mask;                                      // (B) f32: 1, or 0 for a padding sample
  Value sample_ids;                                // (B) i64
  std::function<std::vector<double>(Value)> read;  // computes the elements of a value now, from the current arrays
  backends::Shape outputs = {};                    // (B, N), for text (B, T, N): required shape of predictions
};

// A metric recorded by a step. Its value is Σ sum / Σ weight over the batches.
struct StepMetric {
  std::string name;
  Value sum, weight;  // () f64
};

// Result of recording a training step. Losses and weights have the same shape: (B), one per sample, or (), for the
// whole batch. The gradient of an optimizer step is that of Σ losses / Σ weights.
struct StepLosses {
  Value losses, weights;    // f32
  uint64_t loss_shape = 0;  // loss_shape_digest() the hook's loss
  std::vector<StepMetric> metrics;
};

// Result of recording an evaluation step.
struct StepPredictions {
  Value predictions;      // f32, of shape StepInputs::outputs; N is the number of classes or targets of the data
  Value targets;          // like StepInputs::labels, which are used if this is unset
  Value losses, weights;  // (B) f32; if unset, the recipe's loss is used
  std::vector<StepMetric> metrics;
};

// Entries that a hook may define in addition to events (loop/hooks.h).
enum class HookEntry {
  kModel,
  kOptimizers,
  kSchedule,
  kTrackers,
  kTrainingStep,
  kEvaluationStep,
  kTransform,
  kTrain,
  kMetrics,
  kModes,
  kCount  // number of entries
};

// What a hook does in steps. A member that is not overridden does nothing: the hook lacks the entry.
class StepHooks {
 public:
  virtual ~StepHooks() = default;

  virtual bool has(HookEntry entry) const = 0;
  // Where the function of an entry is defined, for errors that are found after it has returned. Unknown if the entry is
  // not a function.
  virtual SourceMark line_of(HookEntry /*entry*/) const { return {}; }

  // All of the following throw Error(kRun) with the line of the hook.
  virtual nn::Model model(const data::Encoding& /*encoding*/) { return {}; }
  // `model`: the result of model(), or the recipe's model; its parameters are declared but not laid out.
  virtual Optimizers optimizers(const nn::Model& /*model*/, const data::Encoding& /*encoding*/) { return {}; }
  virtual StepLosses training_step(const StepInputs& /*inputs*/) { return {}; }
  virtual StepPredictions evaluation_step(const StepInputs& /*inputs*/) { return {}; }
  // Number of the latest recording's random tensors. With the seed it determines their contents.
  virtual int64_t draw() const { return 0; }
  // Returns the draw number for random tensors in a recording that is replayed.
  virtual int64_t draw_again() { return 0; }
  // How many draws have been made in total. It must match across ranks and after a resume.
  virtual int64_t drawn() const { return 0; }
  virtual void set_drawn(int64_t /*count*/) {}
  // Whether larger values of a metric are better, if the hook says so. `metric`: as recorded.
  virtual std::optional<bool> larger_is_better(std::string_view /*metric*/) const { return std::nullopt; }
  // Serialises what the hook keeps between steps, and restores it.
  virtual std::string state() { return {}; }
  virtual void restore(const std::string& /*state*/) {}
};

// The state of a hook at some point, to repeat what it did afterwards.
struct HookMark {
  std::optional<std::string> kept;  // StepHooks::state(); none if it is too large to be saved often
  int64_t drawn = 0;                // StepHooks::drawn()
};
inline void rewind(const HookMark& mark, StepHooks& hooks) {
  if (mark.kept) hooks.restore(*mark.kept);
  hooks.set_drawn(mark.drawn);
}

// Whether there is a hook that has the entry. `hooks`: null if there is no hook.
inline bool has(const StepHooks* hooks, HookEntry entry) {
  return hooks != nullptr && hooks->has(entry);
}

// Whether larger values of a metric are better: as `mode` says; for auto as the hook says, else by name. `hooks`: null
// if there is no hook.
inline bool maximizes(schema::Mode mode, std::string_view metric, const StepHooks* hooks) {
  if (mode != schema::Mode::kAuto) return mode == schema::Mode::kMax;
  const std::optional<bool> of_hook = hooks != nullptr ? hooks->larger_is_better(metric) : std::nullopt;
  return of_hook.value_or(schema::larger_is_better(metric));
}

// A recipe and its hook that do not agree on which of them provides the model, the optimizers, the schedule or the
// loop.
struct Disagreement {
  std::string key;  // recipe key to change
  std::string message;
};

// Returns all disagreements. `hooks`: null if there is no hook. Thread-safe.
std::vector<Disagreement> disagreements(const schema::Recipe& recipe, const StepHooks* hooks);

// Throws the first disagreement as Error(kRecipe).
void check_agreement(const schema::Recipe& recipe, const StepHooks* hooks);

// Seed of a hook's random numbers on this rank. `ranks`: process group, or null for a single process.
inline uint64_t hook_seed(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  const bool own = recipe.device_specific_seed && ranks != nullptr;
  return static_cast<uint64_t>(recipe.seed) + static_cast<uint64_t>(own ? ranks->rank() : 0);
}

}  // namespace runner::train
