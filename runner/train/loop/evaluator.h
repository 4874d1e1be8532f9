// One pass of a model over a data set without training.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/dataset.h"
#include "runner/data/plan.h"
#include "runner/train/loop/metrics.h"
#include "runner/train/step/trainer.h"

namespace runner::train {

// How an evaluation is divided between replicas (null: there is one): nothing is repeated.
data::DataPlan evaluation_plan(const schema::Recipe& recipe, int64_t samples, const backends::Collectives* ranks);
// The same of data.eval; none: there is none.
std::optional<data::DataPlan> evaluation_plan(const schema::Recipe& recipe, const data::Data& data,
                                              const backends::Collectives* ranks);

class Evaluator {
 public:
  // The data set and the trainer must outlive the Evaluator.  Throws Error(kRecipe) where eval.metrics does not fit the
  // data (metrics.h).  `hooks`: null, or what may have metrics over the whole set.  `ranks`: null, or the replicas that
  // share the work; all call run() together, and all get the figures of the whole set.
  Evaluator(Trainer& trainer, const data::Dataset& dataset, const schema::Recipe& recipe, Hooks* hooks,
            backends::Collectives* ranks = nullptr);

  // Metrics of the recipe and of the hooks by name, without "eval/".  Throws Error(kInterrupted) where `interrupted`
  // says so before a batch; all replicas ask it equally often, and it must tell them the same.
  std::map<std::string, double> run(const std::function<bool()>& interrupted = nullptr);
  // What to warn of after run(), if anything: predictions or targets that are NaN.
  std::optional<std::string> warning() const;

  // The model's outputs for every sample in file order: (samples, outputs) f32, of a text (samples, T, outputs).
  std::vector<float> predict();

 private:
  // Calls each(batch) for every batch of this rank's.
  template <class Each>
  void each_batch(const Each& each, const std::function<bool()>& interrupted = nullptr);
  void score(const data::Batch& batch, Metrics& metrics) const;
  void gather(const data::Batch& batch, EvaluatedSet& set) const;
  EvaluatedSet merged(const EvaluatedSet& mine) const;
  SourceMark line_of_step() const;
  backends::Site site(std::string_view what) const { return {what, trainer_.counters.windows}; }

  Trainer& trainer_;
  const data::Dataset& dataset_;
  const Metrics none_yet_;
  const data::DataPlan plan_;
  Hooks* const hooks_;       // null: none
  const bool with_metrics_;  // over the whole set
  backends::Collectives* const ranks_;
  std::vector<float> outputs_;  // of one batch
  Evaluated evaluated_;
  int64_t samples_ = 0, nan_samples_ = 0;  // of the newest run()
};

}  // namespace runner::train
