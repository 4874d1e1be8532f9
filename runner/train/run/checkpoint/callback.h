// Callbacks that save checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/device_record.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

// Saves checkpoints: every `checkpoint.every`, for good metrics, at a hook's request, and at the end of a run.
class CheckpointCallback final : public Callback {
 public:
  // All arguments must outlive the object.
  CheckpointCallback(TrainState& state, RunRecord& record, DeviceRecord& device);

  // Call after the state has been restored from a checkpoint.
  void resume();

  void on_substep_end() override;
  bool needs_results(const Progress& after) const override;
  void on_optimizer_step(const StepResult& result, const Progress& before) override;
  void on_step_done() override;
  void on_step_closed() override;
  void on_step_failed(const char* reason, const StepStart& start) override;
  void on_find_state(const std::string& state) override;
  void on_load_state() override;
  void on_requested_save() override;
  // Saves the last checkpoint and waits until it is stored.
  void on_train_end(bool done) override;

 private:
  // Returns the reason to save a checkpoint now, or null.
  const char* reason_to_save();
  bool ranks_hold_sums() const;
  int64_t find_same_state(const std::vector<std::string>& selectors);
  void save(const char* reason, Arrays arrays = Arrays::kCopied);
  void save(const char* reason, const Checkpoint& checkpoint, const std::vector<std::string>& names = {},
            Arrays arrays = Arrays::kCopied);
  // Whether checkpoint.keep_every pins the checkpoint of the last optimizer step.
  bool is_pinned() const;

  TrainState& state_;
  Session& session_;
  RunRecord& record_;
  DeviceRecord& device_;
  const Interval every_;
  // Last point where a checkpoint could be saved, possibly within an optimizer step.
  Progress saved_until_;
  bool due_ = false;         // by the interval, after the last optimizer step
  int64_t found_state_ = 0;  // on_find_state()
};

// Keeps the state of a run at the end of an optimizer step while events follow, since hooks may fail and evaluations
// may be interrupted from here on. A run resumed from it repeats the events.
//
// For the declared loop only. The first callback, so that the state is dropped as soon as the events are over.
class UnfinishedStepCallback final : public Callback {
 public:
  // Both must outlive the object.
  UnfinishedStepCallback(TrainState& state, RunRecord& record) : state_(state), record_(record) {}

  // Continues from a checkpoint whose events are still pending.
  void resume(const Checkpoint& checkpoint) { kept_ = checkpoint; }
  std::optional<PendingEvents> pending() const { return kept_ ? kept_->pending : std::nullopt; }

  void on_pending(const PendingEvents& pending) override {
    kept_.reset();
    const bool may_take_long = pending.evaluation || pending.evaluated || pending.ends_epoch || state_.finished();
    if (state_.session.has_custom_loop || !state_.weights_agree || !may_take_long) return;
    if (state_.hooks == nullptr && !pending.evaluation) return;
    kept_ = state_.checkpoint();
    kept_->pending = pending;
  }

  void on_step_done() override { kept_.reset(); }

  // Saves the kept state as a checkpoint. Returns whether it did.
  bool save(const char* reason) {
    if (!kept_ || !record_.is_recorded_here()) return false;
    try {
      record_.checkpoints().save(state_.session.trainer, *kept_, reason, /*pinned=*/false,
                                 record_.points().of_weights_at(state_.step()));
      record_.checkpoints().wait();
      return true;
    } catch (const Error&) {  // the earlier failure explains why the run ends
      return false;
    }
  }

 private:
  TrainState& state_;
  RunRecord& record_;
  std::optional<Checkpoint> kept_;
};

}  // namespace runner::train
