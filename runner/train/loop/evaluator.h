// Evaluates or predicts a data set in one pass.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/dataset.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/train/engine/trainer.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/metrics.h"

namespace runner::train {

// Whose loop runs an evaluation: the default of eval.pad_last depends on it. kEvaluator: as
// StepBuilder::pads_evaluations(). kHookLoop: no padding, because a hook's own loop need not know of it.
enum class Padding { kEvaluator, kHookLoop };

// Returns how an evaluation is divided between `ranks` processes.
data::DataPlan evaluation_plan(const StepBuilder& builder, int64_t samples, int64_t ranks,
                               Padding padding = Padding::kEvaluator);
// Returns how data.eval is divided between `ranks` processes; none if there is none.
std::optional<data::DataPlan> evaluation_plan(const StepBuilder& builder, const data::Data& data, int64_t ranks);

// Returns the specification of a loader that reads the evaluation data once, on the training thread. Tokens are masked
// as in epoch 0 of seed 0, whatever the recipe's seed. `never_empty`: as LoaderSpec::never_empty.
data::LoaderSpec evaluation_loader(int64_t rank, bool never_empty);

// The outputs of a model for the samples of a file, in their order.
struct Outputs {
  struct Token {
    int64_t sample = 0, position = 0;
  };
  std::vector<float> values = {};  // (samples, outputs), or (tokens, outputs) if the model has outputs for each token
  int64_t length = 0;              // tokens of each sample with padding; 0 if the model has outputs for each sample
  std::vector<Token> tokens = {};  // those that are no padding
};

class Evaluator {
 public:
  // `trainer` and `dataset` must outlive the object. `hooks`: may have metrics over the whole set; null if there is no
  // hook. `ranks`: ranks that divide the work, or null. run() is then collective, and all ranks get the metrics of the
  // whole set. Throws Error(kRecipe) if eval.metrics does not fit the data (metrics.h).
  Evaluator(Trainer& trainer, const data::Dataset& dataset, const schema::Recipe& recipe, Hooks* hooks,
            backends::ProcessGroup* ranks = nullptr);

  // Returns the metrics of the recipe and of the hook by name, without "eval/". `interrupted`: called before each
  // batch, equally often on all ranks, and must return the same on all. Throws Error(kInterrupted) if it returns true.
  std::map<std::string, double> run(const std::function<bool()>& interrupted = nullptr);
  // Return warnings about the last run(): predictions or targets were NaN; the loss was not finite, which these do not
  // explain.
  std::optional<std::string> warning_of_nan() const;
  std::optional<std::string> warning_of_loss() const;

  // Returns the model's outputs for every sample.
  Outputs predict();

 private:
  // Calls each(batch) for every batch of this rank.
  template <class Each>
  void each_batch(const Each& each, const std::function<bool()>& interrupted = nullptr);
  void score(const data::Batch& batch, Metrics& metrics) const;
  void gather(const data::Batch& batch, EvaluatedSet& set) const;
  EvaluatedSet merged(const EvaluatedSet& mine) const;
  void leave_out_ignored(EvaluatedSet& set) const;
  SourceMark line_of_step() const;
  backends::Site site(std::string_view what) const { return {what, trainer_.counters.steps}; }

  Trainer& trainer_;
  const data::Dataset& dataset_;
  const std::optional<int64_t> ignored_label_;
  const Metrics none_yet_;
  const data::DataPlan plan_;
  Hooks* const hooks_;       // null if there is no hook
  const bool with_metrics_;  // over the whole set
  backends::ProcessGroup* const ranks_;
  Evaluated evaluated_;
  Metrics newest_;  // of the last run()
};

}  // namespace runner::train
