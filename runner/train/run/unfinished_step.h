// Keeps the state of a run at the end of an optimizer step while events follow, since hooks may fail and evaluations
// may be interrupted from here on. A run resumed from it repeats the events.
//
// For the declared loop only. The first callback, so that the state is dropped as soon as the events are over.
#pragma once

#include <optional>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class UnfinishedStep final : public Callback {
 public:
  // Both must outlive the object.
  UnfinishedStep(TrainState& state, RunRecord& record) : state_(state), record_(record) {}

  // Continues from a checkpoint whose events are still pending.
  void resume(const Checkpoint& checkpoint) { kept_ = checkpoint; }
  std::optional<PendingEvents> pending() const { return kept_ ? kept_->pending : std::nullopt; }

  void on_pending(const PendingEvents& pending) override {
    kept_.reset();
    const bool may_take_long = pending.evaluation || pending.evaluated || pending.ends_epoch || state_.finished();
    if (state_.session.own_loop || !state_.weights_agree || !may_take_long) return;
    if (state_.hooks == nullptr && !pending.evaluation) return;
    kept_ = state_.checkpoint();
    kept_->pending = pending;
  }

  void on_step_done() override { kept_.reset(); }

  // Saves the kept state as a checkpoint. Returns whether it did.
  bool save(const char* reason) {
    if (!kept_ || !record_.is_recorded_here()) return false;
    try {
      record_.states().save(state_.session.trainer, *kept_, reason, /*pinned=*/false,
                            record_.points().at(state_.step()));
      record_.states().wait();
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
