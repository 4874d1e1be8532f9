// Stores the cycles that `profile` traces. All ranks take part.
#pragma once

#include <string>

#include <fmt/format.h>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/profiler.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Profiling final : public Callback {
 public:
  // All arguments must outlive the object.
  Profiling(Profiler& profiler, const TrainState& state, RunRecord& record)
      : profiler_(profiler), state_(state), record_(record) {}

  void on_step_done() override { keep(profiler_.end_step(state_.step(), state_.session.ranks)); }
  void on_train_end(bool /*done*/) override { keep(profiler_.end(state_.session.ranks)); }
  // Stores what this rank alone has traced. Call after a failure.
  void end_alone() { keep(profiler_.end(/*ranks=*/nullptr)); }

 private:
  void keep(const std::string& events) {
    if (events.empty()) return;
    record_.keep_trace(events);
    if (profiler_.left_out() > 0)
      record_.warn(
          fmt::format("profile: too many spans in a cycle: {} of a process were dropped; reduce profile.active",
                      profiler_.left_out()));
  }

  Profiler& profiler_;
  const TrainState& state_;
  RunRecord& record_;
};

}  // namespace runner::train
