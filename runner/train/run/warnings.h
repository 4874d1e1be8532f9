// Records warnings: of the loops, of the device, and of parameters that no loss depends on.
#pragma once

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Warnings final : public Callback {
 public:
  // Both must outlive the object.
  Warnings(const TrainState& state, RunRecord& record)
      : session_(state.session), hooks_(state.hooks), record_(record) {}

  void on_warning(const std::string& text) override { record_.warn(text); }
  void on_optimizer_step(const StepResult& result, const Reached& before) override;
  // Records warnings of the device, even if the run ends because of what they report.
  void take_from_device();

 private:
  void warn_of_unused();

  Session& session_;
  const Hooks* const hooks_;
  RunRecord& record_;
  bool warned_of_unused_ = false;
};

}  // namespace runner::train
