// Evaluates the model every `eval.every` and at the end of a run, records the metrics, and updates a plateau schedule.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/train_loop.h"
#include "runner/train/run/device_usage.h"
#include "runner/train/run/progress.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Evaluation final : public Callback {
 public:
  // All arguments must outlive the object. Throws Error(kRecipe) if eval.metrics does not fit the data.
  Evaluation(TrainState& state, TrainLoop& loop, RunRecord& record, DeviceUsage& usage, Progress& progress);

  bool needs_results(const Reached& after) const override;
  void on_optimizer_step(const StepResult& result, const Reached& before) override;
  void on_evaluation_due() override;

 private:
  std::map<std::string, double> evaluate();
  void warn_of_unrecorded();
  void warn_of_not_finite();

  TrainState& state_;
  Session& session_;
  TrainLoop& loop_;
  RunRecord& record_;
  DeviceUsage& usage_;
  Progress& progress_;
  const Interval every_;
  std::optional<Evaluator> evaluator_;  // none: there is no evaluation data
  bool due_ = false;                    // since some earlier optimizer step
  bool warned_of_nan_ = false, warned_of_loss_ = false;
  int64_t evaluations_ = 0;  // in this attempt
};

}  // namespace runner::train
