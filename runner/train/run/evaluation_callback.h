// Callbacks of evaluations: the evaluations themselves, and early stopping.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/run/device_record.h"
#include "runner/train/run/logging_callback.h"
#include "runner/train/run/run_record.h"
#include "schema/base/json.h"

namespace runner::train {

// Evaluates the model every `eval.every` and at the end of a run, records the metrics, and updates a plateau schedule.
// The schedule and early stopping count only the evaluations that `eval.every` makes due, not those at the start and at
// the end. A run that is made longer therefore continues like one that was longer from the start.
class EvaluationCallback final : public Callback {
 public:
  // All arguments must outlive the object. Throws Error(kRecipe) if eval.metrics does not fit the data.
  EvaluationCallback(TrainState& state, RunRecord& record, DeviceRecord& device, ProgressCallback& progress);

  bool needs_results(const Progress& after) const override;
  void on_optimizer_step(const StepResult& result, const Progress& before) override;
  void on_evaluation_due() override;

 private:
  bool is_repeated() const;
  std::map<std::string, double> evaluate();
  void warn_of_unrecorded();
  void warn_of_not_finite();

  TrainState& state_;
  Session& session_;
  RunRecord& record_;
  DeviceRecord& device_;
  ProgressCallback& progress_;
  const Interval every_;
  std::optional<Evaluator> evaluator_;  // none: there is no evaluation data
  bool due_ = false;                    // since some earlier optimizer step
  bool warned_of_nan_ = false, warned_of_loss_ = false, warned_of_statistics_ = false;
  int64_t evaluations_ = 0;  // in this attempt
};

// Stops a run whose metric has not improved for `train.early_stopping.patience` evaluations. Comes after
// EvaluationCallback.
class EarlyStoppingCallback final : public Callback {
 public:
  // All arguments must outlive the object.
  EarlyStoppingCallback(const schema::EarlyStopping& spec, TrainState& state, RunRecord& record)
      : spec_(spec), state_(state), record_(record) {}

  void on_evaluation_due() override {
    if (state_.evaluation.is_extra) return;
    Patience& patience = state_.patience;
    const double value = state_.session.broadcast_from_rank_0(record_.points().newest(spec_.metric));
    const double gain = maximizes(spec_.mode, spec_.metric, state_.hooks) ? value - patience.best.value_or(-INFINITY)
                                                                          : patience.best.value_or(INFINITY) - value;
    if (gain > spec_.min_delta) {
      patience = {value, 0};
      return;
    }
    if (++patience.evaluations < spec_.patience) return;
    state_.stopped_early = true;
    record_.event(store::Level::kInfo, "early_stopping",
                  json::line(json::Object{
                      {"step", state_.step()}, {"metric", spec_.metric}, {"evaluations", patience.evaluations}}));
  }

 private:
  const schema::EarlyStopping& spec_;
  TrainState& state_;
  RunRecord& record_;
};

}  // namespace runner::train
