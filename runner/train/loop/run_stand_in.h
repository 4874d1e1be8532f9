// What a hook sees of its run when its steps are recorded outside of a run: in trials, and with a stored model.
//
// What a step logs is discarded.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "runner/train/loop/checkpoint.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/hooks.h"

namespace runner::train {

class RunStandIn final : public HookRun {
 public:
  // What the hook sees of a run.
  struct View {
    int64_t epoch = 0, step = 0, steps = 0, accumulation = 1;
    backends::ProcessGroup* ranks = nullptr;  // null: this process trains alone
    Print print = nullptr;
  };

  // Is attached to `hooks` while it exists. `hooks`: null if there is no hook; must outlive the object.
  RunStandIn(Hooks* hooks, View view) : hooks_(hooks), view_(std::move(view)) {
    if (hooks_ != nullptr) hooks_->attach(this);
  }
  ~RunStandIn() override {
    if (hooks_ != nullptr) hooks_->attach(nullptr);
  }
  RunStandIn(const RunStandIn&) = delete;
  RunStandIn& operator=(const RunStandIn&) = delete;

  int64_t epoch() const override { return view_.epoch; }
  int64_t step() const override { return view_.step; }
  int64_t steps() const override { return view_.steps; }
  int64_t accumulation() const override { return view_.accumulation; }
  backends::ProcessGroup* ranks() const override { return view_.ranks; }
  void print(std::string_view text) override {
    if (view_.print) view_.print(text);
  }

 private:
  Hooks* const hooks_;
  const View view_;
};

// Returns the view of a run that has ended with a checkpoint.
RunStandIn::View ended_run(const Checkpoint& checkpoint, Print print);

}  // namespace runner::train
