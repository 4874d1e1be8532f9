// Records the points of training: train/loss and its like every `log.every`, and the values that hooks log.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Logger final : public Callback {
 public:
  // Both must outlive the object.
  Logger(TrainState& state, RunRecord& record);

  void on_run_begin() override { logged_at_ = std::chrono::steady_clock::now(); }
  bool needs_results(const Reached& after) const override;
  void on_log(const std::map<std::string, double>& values) override;
  void on_optimizer_step(const StepResult& result, const Reached& before) override;
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

}  // namespace runner::train
