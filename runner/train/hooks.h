// What a hook file may put in place of parts of a training, as the trainer sees it; runner/lua implements it.
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

#include "runner/data/encoding.h"
#include "runner/data/transform.h"
#include "runner/nn/models.h"
#include "runner/train/optimizers.h"
#include "schema/recipe.h"

namespace runner::train {

using backends::Value;

// The batch of a step under construction.
struct StepInputs {
  nn::Forward& forward;
  const nn::ModulePtr& model;
  Value features;                                  // (B, …) f32
  Value labels;                                    // (B) i64, or targets (B, K) f32
  Value mask;                                      // (B) f32: 1, or 0 for a repeated sample
  Value sample_ids;                                // (B) i64
  std::function<std::vector<double>(Value)> read;  // the elements of a value now, from the arrays as they are
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
  std::vector<StepMetric> metrics;
};

// What an evaluation step recorded.
struct StepPredictions {
  Value predictions;      // (B, N) f32, N as the data has classes or targets
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

enum class Split { kTrain, kEval };

// What a hook that drives the training loop may ask.  Tensors belong to the part of the loop under way; calls that end
// a part say so, and Hooks::record() tells the hook of the next one.
class LoopControl {
 public:
  virtual ~LoopControl() = default;

  // The epochs [first, end) that the next loop over epochs goes through: `count` behind those of the loops before it,
  // or all that the recipe has left.
  struct Epochs {
    int64_t first = 0, end = 0;
  };
  virtual Epochs begin_epochs(std::optional<int64_t> count) = 0;
  // The next epoch, from 0; none: the loop is over.  Ends the part under way.
  virtual std::optional<int64_t> next_epoch(const Epochs& epochs) = 0;

  // A loop over the batches of the epoch under way, or of the evaluation data.  Both end the part under way; a batch
  // is a number that is never used again, none: the loop is over.
  virtual void begin_batches(Split split) = 0;
  virtual std::optional<int64_t> next_batch(Split split) = 0;
  // The loop is left, perhaps before its end: its batch is over.
  virtual void end_batches(Split split) = 0;
  // The part under way, on that batch.  Throws Error(kRun) where the batch is over.
  virtual const StepInputs& inputs(int64_t batch) = 0;
  // The part under way.
  virtual const StepInputs& inputs() = 0;

  // Whether the optimizers step at this batch, the last of its window.
  virtual bool sync_gradients() const = 0;
  virtual void backward(Value loss) = 0;
  virtual Value clip_grad_norm(std::optional<int32_t> optimizer, double limit) = 0;  // unset where none step
  virtual void clip_grad_value(std::optional<int32_t> optimizer, double limit) = 0;
  virtual const std::vector<std::string>& optimizers() const = 0;
  virtual void step(int32_t optimizer) = 0;
  virtual void zero_grad(int32_t optimizer) = 0;
  // Under the schedule.  Both may read a value, where the newest update may be skipped and has not run yet.
  virtual double rate(int32_t optimizer) = 0;
  virtual bool step_was_skipped() = 0;  // the newest
  virtual void step_schedule() = 0;     // moves it on, unless that was

  // Whether a training batch is under way; then points belong to the end of its window.
  virtual bool in_window() const = 0;
  virtual void log(const std::string& name, Value value) = 0;
  virtual void log(const std::string& name, double value) = 0;
  // So far: since the process started, Programs run, and those of them that had to be compiled.
  struct Cost {
    double seconds = 0;
    int64_t runs = 0, compiled = 0;
  };
  virtual Cost cost() const = 0;
  virtual void mark_step() = 0;                         // ends the part under way
  virtual void save() = 0;                              // at the end of the window
  virtual void load(std::optional<int64_t> state) = 0;  // drops the part under way
};

// What hooks of events may ask of the run that is under way, and of it.
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
  virtual void save() = 0;                                                  // a state, at the end of the window
  virtual void stop() = 0;                                                  // the run ends after this window
  virtual void print(std::string_view text) = 0;
  // Keeps bytes with the run, under a relative path.  Throws Error(kRun) for a bad name.
  virtual void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) = 0;
  // The same for the parameters as they are, as a safetensors file.
  virtual void save_model(const std::string& name) = 0;
};

// A file that a hook consists of.
struct HookSource {
  std::string path;  // from the folder of the hook file: "steps.lua", "lib/tools.lua"
  std::string text;
};

enum class HookEvent { kRunBegin, kEpochBegin, kStepEnd, kEvaluation, kEpochEnd, kRunEnd };
inline constexpr int kEventCount = 6;

class Hooks {
 public:
  virtual ~Hooks() = default;

  // Which parts the hook has.
  virtual bool has_model() const = 0;
  virtual bool has_optimizers() const = 0;
  virtual bool has_schedule() const = 0;
  virtual bool has_trackers() const = 0;
  virtual bool has_training_step() const = 0;
  virtual bool has_evaluation_step() const = 0;
  virtual bool has_train() const = 0;
  virtual bool has(HookEvent event) const = 0;
  virtual bool has_metrics() const = 0;

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
  virtual void train(LoopControl& loop) = 0;
  // The part of the loop that tensors belong to from now on; null: to none.
  virtual void record(const StepInputs* part) = 0;
  // Number of the newest recording's random tensors: with the seed, all that they depend on.
  virtual int64_t draw() const = 0;
  // Figures of a whole evaluation by name, without "eval/".
  virtual std::map<std::string, double> metrics(const EvaluatedSet& set) = 0;

  // For a loader of training data: what changes its samples.  Null: nothing does.
  virtual std::shared_ptr<data::Transform> transform() = 0;

  // The run that events belong to; null: none.
  virtual void attach(RunControl* run) = 0;
  // What the hook keeps between steps, as a text, and back.
  virtual std::string state() = 0;
  virtual void restore(const std::string& state) = 0;
};

// Null where the recipe names no hook.  Throws Error(kRecipe) with the line where the file cannot be used.
using MakeHooks = std::function<std::unique_ptr<Hooks>(const schema::Recipe& recipe)>;

}  // namespace runner::train
