// Tells the observer of a run how far it is, and passes on what background threads have finished.
#pragma once

#include <map>
#include <string>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Progress final : public Callback {
 public:
  // All arguments must outlive the object.
  Progress(const TrainState& state, RunRecord& record, Observer& observer)
      : state_(state), record_(record), observer_(observer) {}

  void on_substep_end() override { record_.collect(); }
  void on_optimizer_step(const StepResult& result, const Reached& /*before*/) override { samples_ += result.samples; }
  void on_step_done() override {
    record_.collect();
    observer_.on_step(now());
  }
  // Reports an evaluation.
  void evaluated(const std::map<std::string, double>& metrics) { observer_.on_evaluation(now(), metrics); }

 private:
  Observer::Progress now() const {
    return {.epoch = state_.position.epoch,
            .epochs = state_.session.recipe.train.epochs.value_or(0),
            .step = state_.step(),
            .steps = state_.session.scale.total_steps,
            .samples = samples_,
            .loss = record_.points().newest("train/loss")};
  }

  const TrainState& state_;
  RunRecord& record_;
  Observer& observer_;
  int64_t samples_ = 0;  // in this attempt
};

}  // namespace runner::train
