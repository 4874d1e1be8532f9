// Hooks in C++ for tests: a training loop and other entries.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "runner/train/engine/hooks.h"
#include "runner/train/loop/custom_loop.h"

namespace runner::train {

// The entries of the hook; an empty one does not exist.
struct TestEntries {
  std::function<void(CustomLoop& loop, RunControl& run)> train = nullptr;
  std::function<Optimizers()> optimizers = nullptr;
  std::function<std::shared_ptr<data::Transform>()> transform = nullptr;
};

class TestHooks : public Hooks {
 public:
  explicit TestHooks(TestEntries entries) : entries_(std::move(entries)) {}

  bool has(HookEntry entry) const override {
    switch (entry) {
      case HookEntry::kTrain: return entries_.train != nullptr;
      case HookEntry::kOptimizers: return entries_.optimizers != nullptr;
      case HookEntry::kTransform: return entries_.transform != nullptr;
      default: return false;
    }
  }
  bool has(HookEvent) const override { return false; }
  SourceMark line_of(HookEntry) const override { return {}; }
  std::vector<HookSource> sources() const override { return {}; }
  nn::Model model(const data::Encoding&) override { return {}; }
  Optimizers optimizers(const nn::Model&, const data::Encoding&) override { return entries_.optimizers(); }
  StepLosses training_step(const StepInputs&) override { return {}; }
  StepPredictions evaluation_step(const StepInputs&) override { return {}; }
  void on(HookEvent) override {}
  double schedule(int64_t, int64_t) override { return 1; }
  void track_begin() override {}
  void track(const std::map<std::string, double>&, int64_t) override {}
  void track_end(std::string_view) override {}
  void train(CustomLoop& loop) override { entries_.train(loop, *run_); }
  void record(const StepInputs*) override {}
  int64_t draw() const override { return 0; }
  int64_t draw_again() override { return 0; }
  int64_t drawn() const override { return 0; }
  void set_drawn(int64_t) override {}
  std::map<std::string, double> metrics(const EvaluatedSet&) override { return {}; }
  std::shared_ptr<data::Transform> transform() override { return entries_.transform ? entries_.transform() : nullptr; }
  void attach(RunControl* run) override { run_ = run; }
  std::string state() override { return ""; }
  void restore(const std::string&) override {}
  void check_registered() override {}

 private:
  const TestEntries entries_;
  RunControl* run_ = nullptr;
};

inline MakeHooks hooks_with(TestEntries entries) {
  return [entries = std::move(entries)](const schema::Recipe&) { return std::make_unique<TestHooks>(entries); };
}

}  // namespace runner::train
