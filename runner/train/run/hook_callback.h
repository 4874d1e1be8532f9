// Callbacks of a hook: its events and requests, and its trackers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

// Calls the events of a hook and carries out what a hook requests of the run.
class HookCallback final : public Callback, public HookRun {
 public:
  // Attaches itself to `hooks`. All arguments must outlive the object.
  HookCallback(Hooks& hooks, TrainState& state, RunRecord& record, Observer& observer);

  void on_run_begin() override { call(HookEvent::kRunBegin); }
  void on_epoch_begin() override { call(HookEvent::kEpochBegin); }
  bool needs_results(const Progress& /*after*/) const override { return hooks_.has(HookEvent::kStepEnd); }
  void on_optimizer_step(const StepResult& result, const Progress& before) override;
  void on_evaluate() override { call(HookEvent::kEvaluation); }
  void on_step_end() override { call(HookEvent::kStepEnd); }
  void on_epoch_end() override { call(HookEvent::kEpochEnd); }
  void on_run_end() override { call(HookEvent::kRunEnd); }

  std::string_view run() const override { return record_.result.run; }
  int64_t epoch() const override { return state_.position.epoch; }
  int64_t step() const override { return state_.step(); }
  int64_t steps() const override { return state_.session.length.total_steps; }
  std::optional<double> metric(const std::string& name) const override;
  void log(const std::string& name, double value) override { record_.points().add(name, step(), value); }
  int64_t accumulation() const override { return state_.next_accumulation; }
  void set_accumulation(int64_t batches) override { state_.next_accumulation = batches; }
  void save(const std::string& name) override { state_.control.request_save(/*in_step=*/true, name); }
  void weights_loaded(bool from_file) override;
  void stop() override { state_.control.request_stop(); }
  bool must_end() const override { return state_.control.must_end(); }
  void print(std::string_view text) override { observer_.on_print(text); }
  backends::ProcessGroup* ranks() const override { return state_.session.ranks; }
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) override;
  void save_model(const std::string& name, int64_t max_shard_size) override;

 private:
  void call(HookEvent event);

  Hooks& hooks_;
  TrainState& state_;
  RunRecord& record_;
  Observer& observer_;
};

// Passes the points of each step to the trackers of a hook. On rank 0 only.
class TrackerCallback final : public Callback {
 public:
  // All arguments must outlive the object.
  TrackerCallback(Hooks& hooks, const TrainState& state, RunRecord& record)
      : hooks_(hooks), state_(state), record_(record) {}

  void on_run_begin() override { hooks_.track_begin(); }
  bool needs_results(const Progress& /*after*/) const override { return true; }
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
