// The common part of both training loops, declared_loop.h and custom_loop.h: begins and ends optimizer steps,
// synchronises flags across ranks, and calls the callbacks.
//
// All ranks reach the same collectives. Belongs to the training thread; interrupt a run with TrainControl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "backends/dist/process_group.h"
#include "runner/data/loader.h"
#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/interval.h"
#include "runner/train/loop/train_state.h"
#include "runner/train/step/not_finite.h"
#include "runner/train/step/optimizer_step.h"

namespace runner::train {

class TrainLoop {
 public:
  // `state` and the callbacks must outlive the object.
  TrainLoop(TrainState& state, Callbacks callbacks);

  // Trains until the last step or an interruption. `pending`: events of the last optimizer step that another attempt
  // has not come to. Returns whether training ended by itself: at the last step, or because a hook's loop returned.
  bool run(const std::optional<PendingEvents>& pending);

  // Call when a run that is done has saved everything.
  void end_run();

  // ---- for the two loops -------------------------------------------------------------------------------------------

  // Returns the specification of a loader that starts at the next batch.
  data::LoaderSpec loader_spec();
  // Waits until the loader has a batch. Returns false if all ranks have agreed to stop instead. They may do so at the
  // beginning of an epoch and with a new loader, because shuffling the samples of an epoch may take a minute.
  bool wait_for_batch(data::Loader& loader, bool is_new);
  // Begins an optimizer step and, where one begins, the epoch.
  StepStart begin_step();
  // The situation now: of an optimizer step that another process has begun, or of a hook outside of any.
  StepStart here();
  // Reports the optimizer step in progress, TrainState::result, at a point where it can be saved in a checkpoint.
  void end_substep();
  void end_step(StepResult result);
  // Whether end_step() and everything up to the recording of the next optimizer step need no results from the device,
  // and `start` describes the beginning completely.
  bool may_run_ahead(const StepResult& result, const StepStart& start) const;
  // Call when nothing more belongs to the last optimizer step. A due checkpoint is saved now. It includes what the hook
  // did after the step, at the end of the epoch. With train.local_sgd it waits for an average.
  void close_step();
  // Reports an optimizer step that is not finite. Throws if that ends the run. `untouched`: nothing has been updated
  // since its start.
  void not_finite(const NotFinite& found, const StepStart& start, bool untouched);
  // Call if an optimizer step has failed, which ends the run, and nothing has been updated since its start. Saves a
  // checkpoint of the start, if the run can be resumed exactly from there.
  void keep_before(const StepStart& start);

  // ---- requests of a hook ------------------------------------------------------------------------------------------

  void warn(const std::string& text) { callbacks_.call(&Callback::on_warning, text); }
  // A value at the end of the optimizer step.
  void point(const std::string& name, double value) { points_[name] = value; }
  void find_state(const std::string& state) { callbacks_.call(&Callback::on_find_state, state); }
  void load_state() { callbacks_.call(&Callback::on_load_state); }

 private:
  int64_t step() const { return state_.step(); }
  bool is_local() const { return session_.trainer.stepper().is_local(); }

  void begin_run();
  // Synchronises control flags across ranks after an optimizer step: a request on one rank takes effect on all. Without
  // hooks there are only requests to stop, which ranks share when they add up gradients.
  void sync(uint64_t call_digest = 0);
  // With train.local_sgd: averages the weights of the ranks if `due`. Only then may flags be synchronised, and may the
  // run save or evaluate.
  void average(bool due);
  // Throws Error(kRun) if weights differ between ranks.
  void check_weights();
  uint64_t digest_of_ranks(uint64_t digest) const;
  HookMark mark();
  // The events after an optimizer step.
  void run_events(const PendingEvents& pending);
  void run_evaluation_events(PendingEvents pending);
  void evaluate();
  void evaluate_again();
  void evaluate_at_start();

  // A hook whose state is larger than this is asked for it only at the beginning of an epoch, not before each optimizer
  // step.
  static constexpr size_t kMaxHookState = 1024;

  TrainState& state_;
  Session& session_;
  Hooks* const hooks_;
  TrainControl& control_;
  const Callbacks callbacks_;
  const Interval average_every_, check_every_;
  bool has_begun_ = false;  // the first optimizer step
  bool hook_keeps_much_ = false;
  std::map<std::string, double> points_;  // of a hook's loop, for the end of the optimizer step
};

}  // namespace runner::train
