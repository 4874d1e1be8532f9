// The optimizer step in flight of a declared loop: what the device may still be running, and how the step ended.
//
// The host runs ahead: it counts a step as finite and rolls the counters back if the step was not finite or failed. One
// optimizer step lasts from begin() to resolve(). Call wait() before submitting anything else, because the device
// keeps only the outputs of its newest submission. Not thread-safe.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"
#include "runner/train/engine/batch_place.h"
#include "runner/train/engine/executor.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/lost_gradient.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/optimizers.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Adds the metrics of a hook's step that has run. They are its outputs from `first` on.
void add_metrics(backends::Device& device, const CompiledStep& step, const StepBuilder::Recorded& recorded, int first,
                 MetricSums& sums);

// Whether this rank measures what gradients lose when they are added up. One rank is enough.
bool measures_lost_gradient(const schema::Recipe& recipe, const backends::ProcessGroup* ranks);
// Adds the outputs of output_lost_gradient() of a step that has run, if it has any.
void add_lost_gradient(backends::Device& device, const CompiledStep& step, LostGradient& lost);

class InFlightStep {
 public:
  // `device_counts`: the device counts applied steps (update_clock.h), and the host does not know which were applied.
  // All other arguments must outlive the object.
  InFlightStep(const schema::Recipe& recipe, backends::Device& device, const Optimizers& optimizers, Counters& counters,
               StepMetrics& metrics, bool device_counts);

  // A submission in flight and what to read from it when it is done.
  struct Submitted {
    backends::Ticket ticket;
    SharedStep step;
    const StepBuilder::Recorded* recorded;  // with metrics of a hook; null if there are none
    bool completes;                         // whether it completes an optimizer step
    BatchPlace batch;
  };
  // Continues with an optimizer step. The outcome of the previous one can no longer be read.
  void begin();
  // Mark that trained arrays are about to be updated: by a submission, until wait() has seen it complete, or by a
  // step of all ranks, until end().
  void begin_update() { update_ = Update::kOfStep; }
  void begin_update_of_all() { update_ = Update::kOfAll; }
  // After a failure: whether trained arrays may differ from those after the last finished optimizer step.
  bool may_be_half_updated() const {
    return update_ == Update::kOfAll || (update_ == Update::kOfStep && device_.has_written_states());
  }
  void set_submitted(Submitted submitted) { submitted_ = std::move(submitted); }
  // Whether the submission in flight may read a recording.
  bool reads(const StepBuilder::Recorded& recorded) const { return submitted_ && submitted_->recorded == &recorded; }

  // Waits for the submission in flight and adds its metrics to those of the batches. An error is stored.
  void wait();
  // Throws the stored error and clears it.
  void throw_failure();
  // Calls wait() and throw_failure().
  void finish() {
    wait();
    throw_failure();
  }
  // Throws the stored error but keeps it, because a hook may catch it and continue. Throws Error(kRun) if the previous
  // optimizer step was not finite and therefore ends the run. Call before preparing the next step.
  void check() const;

  // Marks that `step` ends the optimizer step. Counts it as finite.
  void end(const SharedStep& step, const ScheduleRates& rates, const StepResult& result);
  // Whether an optimizer step has ended and resolve() has not been called yet.
  bool has_ended() const { return ended_.has_value(); }
  // Sets how the optimizer step ended. Call after wait(), and only if has_ended().
  void resolve(StepResult& newest);

  // Of all submissions that wait() has waited for.
  const LostGradient& lost_gradient() const { return lost_gradient_; }

  // With device-side counters: whether the optimizer step was applied, and its learning rate. read_outcome() must be
  // called while the outputs of the step still exist.
  void read_outcome();
  void set_outcome(StepResult& newest) const;

 private:
  // Outcome of an optimizer step that has ended.
  struct Ended {
    int64_t scheduled, samples, repeats;  // counted for it
    bool known = false, finite = true;
    double grad_norm = 0;
  };
  struct Outcome {
    bool applied;
    double lr;
  };
  enum class Update { kNone, kOfStep, kOfAll };
  // First output after those of StepOutput: `applied` and the learning rate factor, if the device counts.
  int outcome_outputs() const;
  void read_end(const CompiledStep& step);
  void take_back();

  const schema::Recipe& recipe_;
  backends::Device& device_;
  const Optimizers& optimizers_;
  Counters& counters_;
  StepMetrics& metrics_;
  const bool device_counts_;
  std::optional<Submitted> submitted_;
  std::optional<Ended> ended_;  // set from end() until resolve()
  std::exception_ptr failure_;
  LostGradient lost_gradient_;
  Update update_ = Update::kNone;
  SharedStep step_;                 // the step that ended the optimizer step; null while it is in progress
  std::optional<Outcome> outcome_;  // of step_
};

}  // namespace runner::train
