// Callbacks of a training loop: points, evaluations, hook events, checkpoints, progress.
//
// A training loop computes; callbacks do everything else. Both loops, declared_loop.h and custom_loop.h, reach them
// through TrainLoop (train_loop.h), so they see the same events. All ranks have the same callbacks in the same order,
// and those of one event may use collectives. Called on the training thread; errors end the run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/train/loop/checkpoint.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/train_state.h"
#include "runner/train/step/optimizer_step.h"

namespace runner::train {

// The events, in the order of a run. A callback overrides those that it needs.
class Callback {
 public:
  virtual ~Callback() = default;

  // Before the first batch of this attempt.
  virtual void on_run_begin() {}
  virtual void on_epoch_begin() {}
  // Within an optimizer step, where it can be saved in a checkpoint (Stepper::advance()).
  virtual void on_substep_end() {}

  // Whether the callback needs results of the device after an optimizer step that ends at `after`. If none does, the
  // next step is submitted before this one has run.
  virtual bool needs_results(const Progress& /*after*/) const { return false; }
  // Values that a hook's loop has logged in the optimizer step that has ended. Before its flags are synchronised.
  virtual void on_log(const std::map<std::string, double>& /*values*/) {}
  // An optimizer step is done and counted. `before`: the end of the step before it.
  virtual void on_optimizer_step(const StepResult& /*result*/, const Progress& /*before*/) {}
  // The events in `pending` are about to occur. Called again after an evaluation.
  virtual void on_pending(const PendingEvents& /*pending*/) {}
  // An evaluation is due.
  virtual void on_evaluation_due() {}
  virtual void on_evaluate() {}  // after it
  virtual void on_step_end() {}
  virtual void on_epoch_end() {}
  // The events above have occurred, and flags have been synchronised: the state is that after the step.
  virtual void on_step_done() {}
  // Nothing more belongs to the last optimizer step: the next one begins, or an epoch, or the loop ends.
  virtual void on_step_closed() {}

  // An optimizer step has failed, which ends the run, and nothing has been updated since `start`. `reason`: of a
  // checkpoint.
  virtual void on_step_failed(const char* /*reason*/, const StepStart& /*start*/) {}
  virtual void on_warning(const std::string& /*text*/) {}

  // Requests of a hook's loop. `state`: id or name of a checkpoint, "best" or "best(METRIC)"; empty: the newest. Throws
  // if there is none, or if the ranks ask for different ones.
  virtual void on_find_state(const std::string& /*state*/) {}
  virtual void on_load_state() {}  // loads the one found
  // A hook may have requested a checkpoint before the first optimizer step, or at the end of the run.
  virtual void on_requested_save() {}

  // The loop has ended. `done`: it was not interrupted.
  virtual void on_train_end(bool /*done*/) {}
  // Everything has been saved, and the run is done.
  virtual void on_run_end() {}
};

// Calls callbacks in the order of a list.
class Callbacks {
 public:
  Callbacks() = default;
  explicit Callbacks(std::vector<Callback*> list) : list_(std::move(list)) {}

  template <class... Parameters, class... Arguments>
  void call(void (Callback::*event)(Parameters...), const Arguments&... arguments) const {
    for (Callback* callback : list_) (callback->*event)(arguments...);
  }
  bool any_needs_results(const Progress& after) const {
    for (const Callback* callback : list_)
      if (callback->needs_results(after)) return true;
    return false;
  }

 private:
  std::vector<Callback*> list_;
};

}  // namespace runner::train
