// Hooks in C++ for tests: a training loop and other entries.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backends/ir/ops.h"
#include "runner/train/loop/custom_loop.h"
#include "runner/train/loop/hook_run.h"
#include "runner/train/loop/hooks.h"

namespace runner::train {

// The entries of the hook; an empty one does not exist.
struct TestEntries {
  std::function<void(CustomLoop& loop, HookRun& run)> train = nullptr;
  std::function<Optimizers()> optimizers = nullptr;
  std::function<nn::ModulePtr()> model = nullptr;
  std::function<std::shared_ptr<data::Transform>()> transform = nullptr;
};

class TestHooks : public Hooks {
 public:
  explicit TestHooks(TestEntries entries) : entries_(std::move(entries)) {}

  using Hooks::has;
  bool has(HookEntry entry) const override {
    switch (entry) {
      case HookEntry::kTrain: return entries_.train != nullptr;
      case HookEntry::kModel: return entries_.model != nullptr;
      case HookEntry::kOptimizers: return entries_.optimizers != nullptr;
      case HookEntry::kTransform: return entries_.transform != nullptr;
      default: return false;
    }
  }
  Optimizers optimizers(const nn::Model&, const data::Encoding&) override { return entries_.optimizers(); }
  nn::Model model(const data::Encoding&) override {
    nn::Model model{.module = entries_.model(), .parameters = {}};
    model.module->declare(model.parameters, "");
    return model;
  }
  void train(CustomLoop& loop) override { entries_.train(loop, *run_); }
  std::shared_ptr<data::Transform> transform() override { return entries_.transform ? entries_.transform() : nullptr; }
  void attach(HookRun* run) override { run_ = run; }

 private:
  const TestEntries entries_;
  HookRun* run_ = nullptr;
};

// A training loop that does what the declared loop does, with the mean of the squared outputs as the loss.
inline void train_epochs(CustomLoop& loop) {
  const CustomLoop::Epochs epochs = loop.begin_epochs(std::nullopt);
  while (loop.next_epoch(epochs)) {
    loop.begin_batches(Split::kTrain);
    while (loop.next_batch(Split::kTrain)) {
      const StepInputs& inputs = loop.inputs();
      const Value outputs = inputs.model->forward(inputs.forward, inputs.features);
      loop.backward(backends::ops::mean(backends::ops::mul(outputs, outputs), std::vector<int64_t>{0, 1}));
      loop.step(0);
      loop.step_schedule();
      loop.zero_grad(0);
    }
  }
}

inline MakeHooks hooks_with(TestEntries entries) {
  return [entries = std::move(entries)](const schema::Recipe&) { return std::make_unique<TestHooks>(entries); };
}

}  // namespace runner::train
