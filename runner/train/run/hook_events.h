// Calls the events of a hook and carries out what a hook requests of the run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/train/engine/hooks.h"
#include "runner/train/loop/callbacks.h"
#include "runner/train/loop/train_loop.h"
#include "runner/train/run/run.h"
#include "runner/train/run/run_record.h"

namespace runner::train {

class HookEvents final : public Callback, public RunControl {
 public:
  // Attaches itself to `hooks`. All arguments must outlive the object.
  HookEvents(Hooks& hooks, TrainState& state, TrainLoop& loop, RunRecord& record, Observer& observer);

  void on_run_begin() override { call(HookEvent::kRunBegin); }
  void on_epoch_begin() override { call(HookEvent::kEpochBegin); }
  bool needs_results(const Reached& /*after*/) const override { return hooks_.has(HookEvent::kStepEnd); }
  void on_evaluate() override { call(HookEvent::kEvaluation); }
  void on_step_end() override { call(HookEvent::kStepEnd); }
  void on_epoch_end() override { call(HookEvent::kEpochEnd); }
  void on_run_end() override { call(HookEvent::kRunEnd); }

  std::string_view run() const override { return record_.result.run; }
  std::string_view name() const override { return record_.result.name; }
  int64_t epoch() const override { return state_.position.epoch; }
  int64_t step() const override { return state_.step(); }
  int64_t steps() const override { return state_.session.scale.total_steps; }
  std::optional<double> metric(const std::string& name) const override;
  void log(const std::string& name, double value) override { record_.points().add(name, step(), value); }
  int64_t accumulation() const override { return state_.next_accumulation; }
  void set_accumulation(int64_t batches) override { state_.next_accumulation = batches; }
  void save() override { loop_.save_soon(/*in_step=*/true); }
  void stop() override { loop_.stop_soon(); }
  bool must_end() const override { return loop_.must_end(); }
  void print(std::string_view text) override { observer_.on_print(text); }
  backends::ProcessGroup* ranks() const override { return state_.session.ranks; }
  void save_artifact(const std::string& name, std::string_view kind, std::vector<std::byte> bytes) override;
  void save_model(const std::string& name, int64_t max_shard_size) override;

 private:
  void call(HookEvent event) {
    if (hooks_.has(event)) hooks_.on(event);
  }

  Hooks& hooks_;
  TrainState& state_;
  TrainLoop& loop_;
  RunRecord& record_;
  Observer& observer_;
};

}  // namespace runner::train
