// What a hook file may put in place of the recipe's parts of a training, as the trainer sees it; runner/lua implements
// it. run.h explains the words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/collectives/collectives.h"
#include "runner/data/encoding.h"
#include "runner/data/transform.h"
#include "runner/nn/models.h"
#include "runner/train/step/optimizers.h"
#include "schema/recipe.h"
#include "schema/source_mark.h"

namespace runner::train {

using backends::Value;

// The batch of a step under construction.
struct StepInputs {
  nn::Forward& forward;
  const nn::ModulePtr& model;
  Value features;                                  // (B, …) f32, of a text (B, T) i64
  Value labels;                                    // (B) i64, of a text (B, T) i64, or targets (B, K) f32
  Value mask;                                      // (B) f32: 1, or 0 for a repeated sample
  Value sample_ids;                                // (B) i64
  std::function<std::vector<double>(Value)> read;  // the elements of a value now, from the arrays as they are
  backends::Shape outputs = {};                    // (B, N), of a text (B, T, N): what predictions have to be
};

// A metric that a step records: its value is Σ sum / Σ weight over the batches.
struct StepMetric {
  std::string name;
  Value sum, weight;  // () f64
};

// What a training step recorded.  Losses and weights have one shape: (B), one for each sample, or (), for the whole
// batch.  The gradient of a window is that of Σ losses / Σ weights.
struct StepLosses {
  Value losses, weights;  // f32
  uint64_t form = 0;      // form_of() what the hook returned
  std::vector<StepMetric> metrics;
};

// What an evaluation step recorded.
struct StepPredictions {
  Value predictions;      // f32, of the shape StepInputs::outputs; N as the data has classes or targets
  Value targets;          // as StepInputs::labels; unset: those
  Value losses, weights;  // (B) f32, or unset: those of the recipe's loss
  std::vector<StepMetric> metrics;
};

// A whole evaluation: its S samples in the order of their ids, without repeats.
struct EvaluatedSet {
  int64_t samples = 0;
  int64_t outputs = 0;             // N
  std::vector<float> predictions;  // (S, N)
  std::vector<int64_t> classes;    // (S), or empty:
  std::vector<float> targets;      // (S, N)
};

class CustomLoop;  // custom_loop.h

// What a hook may ask about the run that is under way, and ask of it.
class RunControl {
 public:
  virtual ~RunControl() = default;
  virtual std::string_view run() const = 0;
  virtual std::string_view name() const = 0;
  virtual int64_t epoch() const = 0;                                        // finished epochs
  virtual int64_t step() const = 0;                                         // finished optimizer windows
  virtual int64_t steps() const = 0;                                        // of the whole run
  virtual std::optional<double> metric(const std::string& name) const = 0;  // its newest point
  virtual void log(const std::string& name, double value) = 0;              // a point at step()
  virtual int64_t accumulation() const = 0;                                 // batches of a window
  virtual void set_accumulation(int64_t batches) = 0;                       // from the next window on
  virtual void save() = 0;                                                  // a state, at the end of the window
  virtual void stop() = 0;                                                  // the run ends after this window
  virtual bool must_end() const = 0;  // a call under way: a signal has come, or the run has ended elsewhere
  virtual void print(std::string_view text) = 0;
  virtual backends::Collectives* replicas() const = 0;  // null: this process trains alone
  // Keeps bytes with the run, under a relative path.  Throws Error(kRun) for a bad name.
  virtual void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) = 0;
  // The same for the parameters as they are, as the files of formats::model_files.
  virtual void save_model(const std::string& name, int64_t max_shard_size) = 0;
};

// A file that a hook consists of.
struct HookSource {
  std::string path;  // from the folder of the hook file: "steps.lua", "lib/tools.lua"
  std::string text;
};

// What a hook may have, besides events.
enum class HookEntry {
  kModel,
  kOptimizers,
  kSchedule,
  kTrackers,
  kTrainingStep,
  kEvaluationStep,
  kTransform,
  kTrain,
  kMetrics
};
inline constexpr int kEntryCount = 9;

enum class HookEvent { kRunBegin, kEpochBegin, kStepEnd, kEvaluation, kEpochEnd, kRunEnd };
inline constexpr int kEventCount = 6;

class Hooks {
 public:
  virtual ~Hooks() = default;

  virtual bool has(HookEntry entry) const = 0;
  virtual bool has(HookEvent event) const = 0;
  // Where the function of an entry is defined, for errors that show when it has returned; unknown where it is none.
  virtual SourceMark line_of(HookEntry entry) const = 0;

  // What has been read so far.
  virtual std::vector<HookSource> sources() const = 0;

  // All throw Error(kRun) with the line of the hook.
  virtual nn::Model model(const data::Encoding& encoding) = 0;
  // `model`: what model() gave, or the recipe's; declared, not laid out.
  virtual Optimizers optimizers(const nn::Model& model, const data::Encoding& encoding) = 0;
  virtual StepLosses training_step(const StepInputs& inputs) = 0;
  virtual StepPredictions evaluation_step(const StepInputs& inputs) = 0;
  virtual void on(HookEvent event) = 0;
  // The factor of the rates after `step` of `steps` steps.
  virtual double schedule(int64_t step, int64_t steps) = 0;
  // What trackers are told: that the run begins, the points of a step, and how it ended.
  virtual void track_begin() = 0;
  virtual void track(const std::map<std::string, double>& values, int64_t step) = 0;
  virtual void track_end(std::string_view status) = 0;
  // The whole training.  Throws what the loop throws.
  virtual void train(CustomLoop& loop) = 0;
  // The segment of the loop that tensors belong to from now on; null: none.
  virtual void record(const StepInputs* segment) = 0;
  // Number of the newest recording's random tensors: with the seed, all that they depend on.
  virtual int64_t draw() const = 0;
  // The draw that random tensors have in a recording that is used once more.
  virtual int64_t draw_again() = 0;
  // How many numbers it has drawn in all, of which resumed runs and replicas must not disagree.
  virtual int64_t drawn() const = 0;
  virtual void set_drawn(int64_t count) = 0;
  // Figures of a whole evaluation by name, without "eval/".
  virtual std::map<std::string, double> metrics(const EvaluatedSet& set) = 0;

  // For a loader of training data: what changes its samples.  Null: nothing does.
  virtual std::shared_ptr<data::Transform> transform() = 0;

  // The run that events belong to; null: none.
  virtual void attach(RunControl* run) = 0;
  // What the hook keeps between steps, as a text, and back.
  virtual std::string state() = 0;
  virtual void restore(const std::string& state) = 0;
  // Throws where it was restored with more objects than are registered by now.
  virtual void check_registered() = 0;
};

// What a hook keeps at some moment, to do again what it did next.
struct HookMark {
  std::optional<std::string> kept;  // Hooks::state(); none: it keeps too much to be asked for it often
  int64_t drawn = 0;                // Hooks::drawn()
};
inline void go_back_to(const HookMark& mark, Hooks& hooks) {
  if (mark.kept) hooks.restore(*mark.kept);
  hooks.set_drawn(mark.drawn);
}

// Whether there is a hook (null: none) with that entry.
inline bool has(const Hooks* hooks, HookEntry entry) {
  return hooks != nullptr && hooks->has(entry);
}

// That of the random numbers which a hook draws in a replica; `ranks`: null, or the replicas.
inline uint64_t hook_seed(const schema::Recipe& recipe, const backends::Collectives* ranks) {
  const bool own = recipe.device_specific_seed && ranks != nullptr;
  return static_cast<uint64_t>(recipe.seed) + static_cast<uint64_t>(own ? ranks->rank() : 0);
}

// Null where the recipe names no hook.  Throws Error(kRecipe) with the line where the file cannot be used.
using MakeHooks = std::function<std::unique_ptr<Hooks>(const schema::Recipe& recipe)>;

}  // namespace runner::train
