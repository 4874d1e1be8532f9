// Passes the points of each step to the trackers of a hook. On rank 0 only.
#pragma once

#include <map>
#include <string>

#include <fmt/format.h>

#include "runner/train/loop/callbacks.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class Trackers final : public Callback {
 public:
  // All arguments must outlive the object.
  Trackers(Hooks& hooks, const TrainState& state, RunRecord& record) : hooks_(hooks), state_(state), record_(record) {}

  void on_run_begin() override { hooks_.track_begin(); }
  bool needs_results(const Reached& /*after*/) const override { return true; }
  void on_step_done() override {
    const std::map<std::string, double> points = record_.points().at(state_.step());
    if (!points.empty()) hooks_.track(points, state_.step());
  }
  // Call at the end of a run, also of a failed one. A failure of a tracker fails the run.
  void end() {
    try {
      hooks_.track_end(to_string(record_.result.status));
    } catch (const Error& error) {
      record_.result.error ? record_.warn(fmt::format("trackers: {}", error.what())) : record_.fail_with(error);
    }
  }

 private:
  Hooks& hooks_;
  const TrainState& state_;
  RunRecord& record_;
};

}  // namespace runner::train
