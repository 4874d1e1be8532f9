// Saves checkpoints: every `checkpoint.every`, for good metrics, at a hook's request, and at the end of a run.
#pragma once

#include <optional>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/device_usage.h"
#include "runner/train/run/persistent_graphs.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Checkpointer final : public Callback {
 public:
  // `graphs`: cache whose new entries are stored with each checkpoint, or null. All arguments must outlive the object.
  Checkpointer(TrainState& state, RunRecord& record, DeviceUsage& usage, PersistentGraphs* graphs);

  // Call after the state has been restored from a checkpoint.
  void resume();

  void on_substep_end() override;
  bool needs_results(const Reached& after) const override;
  void on_optimizer_step(const StepResult& result, const Reached& before) override;
  void on_step_done() override;
  void on_step_closed() override;
  void on_step_failed(const char* reason, const StepStart& start) override;
  void on_check_state(std::optional<int64_t> id) override;
  void on_load_state(std::optional<int64_t> id) override;
  // Saves the last checkpoint and waits until it is stored.
  void on_train_end(bool done) override;

 private:
  // Returns the reason to save a checkpoint now, or null.
  const char* reason_to_save();
  void save(const char* reason);
  void save(const char* reason, const Checkpoint& checkpoint);
  // Whether checkpoint.keep_every pins the checkpoint of the last optimizer step.
  bool stays() const;

  TrainState& state_;
  Session& session_;
  RunRecord& record_;
  DeviceUsage& usage_;
  PersistentGraphs* const graphs_;
  const Interval every_;
  // Last point where a checkpoint could be saved, possibly within an optimizer step.
  Reached saved_until_;
  bool due_ = false;  // by the interval, after the last optimizer step
};

}  // namespace runner::train
