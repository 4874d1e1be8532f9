// Callbacks that report a run: points, warnings, progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

// Records the points of training: train/loss and its like every `log.every`, and the values that hooks log.
class LoggingCallback final : public Callback {
 public:
  // Both must outlive the object.
  LoggingCallback(TrainState& state, RunRecord& record);

  void on_run_begin() override { logged_at_ = std::chrono::steady_clock::now(); }
  bool needs_results(const Progress& after) const override;
  void on_log(const std::map<std::string, double>& values) override;
  void on_optimizer_step(const StepResult& result, const Progress& before) override;
  // The last step of a run has points even if it becomes the last only now.
  void on_step_done() override;

 private:
  void log();
  std::string_view weight_advice() const;

  TrainState& state_;
  Session& session_;
  RunRecord& record_;
  const Interval every_;
  StepResult result_;    // the last optimizer step
  bool logged_ = true;   // after that step; a step that another attempt has begun has its points
  int64_t samples_ = 0;  // since the last points
  std::chrono::steady_clock::time_point logged_at_;
  bool warned_of_no_weight_ = false;
};

// Records warnings: of the loops, of the device, and of parameters that no loss depends on.
class WarningCallback final : public Callback {
 public:
  // Both must outlive the object.
  WarningCallback(const TrainState& state, RunRecord& record)
      : session_(state.session), hooks_(state.hooks), record_(record) {}

  void on_warning(const std::string& text) override { record_.warn(text); }
  void on_optimizer_step(const StepResult& result, const Progress& before) override;
  // Records warnings of the device, even if the run ends because of what they report.
  void take_from_device();

 private:
  void warn_of_unused();

  Session& session_;
  const Hooks* const hooks_;
  RunRecord& record_;
  bool warned_of_unused_ = false;
};

// Reports progress to the observer of a run and handles what background threads have finished.
class ProgressCallback final : public Callback {
 public:
  // All arguments must outlive the object.
  ProgressCallback(const TrainState& state, RunRecord& record, Observer& observer)
      : state_(state), record_(record), observer_(observer) {}

  void on_substep_end() override { record_.collect(); }
  void on_optimizer_step(const StepResult& result, const Progress& /*before*/) override { samples_ += result.samples; }
  void on_step_done() override {
    record_.collect();
    observer_.on_step(now());
  }
  // Reports an evaluation.
  void evaluated(const std::map<std::string, double>& metrics) { observer_.on_evaluation(now(), metrics); }

 private:
  RunProgress now() const {
    return {.epoch = state_.position.epoch,
            .epochs = state_.session.recipe.train.epochs.value_or(0),
            .step = state_.step(),
            .steps = state_.session.length.total_steps,
            .samples = samples_,
            .loss = record_.points().newest("train/loss")};
  }

  const TrainState& state_;
  RunRecord& record_;
  Observer& observer_;
  int64_t samples_ = 0;  // in this attempt
};

}  // namespace runner::train
