// The contract of callbacks: which events both training loops report, and when; and early stopping.
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/train/loop/train_loop.h"
#include "runner/train/run/evaluation_callback.h"
#include "tests/train/test_hooks.h"
#include "tests/train/two_epochs.h"

namespace runner::train {
namespace {

using EventNames = std::vector<std::string>;

// Records the events, except that a step is closed. Requests an evaluation after step `evaluates_at`, and a stop after
// step `stops_at`.
class RecordingCallback final : public Callback {
 public:
  RecordingCallback(TrainState& state, std::atomic<int>& stop) : state_(state), stop_(stop) {}

  EventNames events;
  int64_t evaluates_at = -1, stops_at = -1;
  bool needs = false;

  bool needs_results(const Progress&) const override { return needs; }
  void on_run_begin() override { add("run begins"); }
  void on_epoch_begin() override { add("epoch begins"); }
  void on_optimizer_step(const StepResult&, const Progress&) override {
    add("step " + std::to_string(state_.step()));
    state_.evaluation.due = state_.step() == evaluates_at;
  }
  void on_pending(const PendingEvents& pending) override {
    add(pending.evaluation ? "evaluation pending" : pending.evaluated ? "evaluated" : "pending");
  }
  void on_evaluation_due() override { add("evaluation due"); }
  void on_evaluate() override { add("evaluation"); }
  void on_step_end() override { add("step ends"); }
  void on_epoch_end() override { add("epoch ends"); }
  void on_step_done() override {
    add("step done");
    if (state_.step() == stops_at) stop_ = 1;
  }
  void on_train_end(bool done) override { add(done ? "training done" : "training interrupted"); }
  void on_run_end() override { add("run ends"); }

 private:
  void add(const std::string& event) { events.push_back(event); }

  TrainState& state_;
  std::atomic<int>& stop_;
};

// A run whose events are recorded.
class RecordedRun {
 public:
  explicit RecordedRun(Hooks* hooks = nullptr, const std::vector<std::string>& overrides = {})
      : recipe_(two_epochs(overrides)), session(recipe_, hooks, nullptr, nullptr, /*own_thread=*/true) {
    state.emplace(session, hooks, stop_);
    callback.emplace(*state, stop_);
    loop.emplace(*state, Callbacks({&*callback}));
    session.trainer.allocate();
  }

  // Returns the events.
  EventNames run(const std::optional<PendingEvents>& pending = std::nullopt) {
    if (loop->run(pending)) loop->end_run();
    return callback->events;
  }

 private:
  const schema::Recipe recipe_;
  std::atomic<int> stop_{0};

 public:
  Session session;
  std::optional<TrainState> state;
  std::optional<TrainLoop> loop;
  std::optional<RecordingCallback> callback;
};

// A hook with a training loop that does what the declared loop does.
class LoopHooks : public TestHooks {
 public:
  LoopHooks() : TestHooks({.train = [](CustomLoop& loop, HookRun&) { train_epochs(loop); }}) { attach(&run_); }

 private:
  HookRun run_;
};

const EventNames kWholeRun{
    "run begins",     "epoch begins", "step 1",     "pending",       "step ends",    "step done", "step 2",
    "pending",        "step ends",    "epoch ends", "step done",     "epoch begins", "step 3",    "evaluation pending",
    "evaluation due", "evaluated",    "evaluation", "step ends",     "step done",    "step 4",    "pending",
    "step ends",      "epoch ends",   "step done",  "training done", "run ends"};

TEST(Callbacks, GetTheEventsOfADeclaredLoopInOrder) {
  RecordedRun run;
  run.callback->evaluates_at = 3;
  EXPECT_EQ(run.run(), kWholeRun);
}

TEST(Callbacks, GetTheSameEventsOfAHooksLoop) {
  LoopHooks hooks;
  RecordedRun run(&hooks);
  run.callback->evaluates_at = 3;
  EXPECT_EQ(run.run(), kWholeRun);
}

TEST(Callbacks, GetPendingEventsFirst) {
  RecordedRun run;
  const EventNames events = run.run(PendingEvents{.evaluation = true, .ends_epoch = true});
  const EventNames repeated{"run begins", "evaluation pending", "evaluation due", "evaluated",    "evaluation",
                            "step ends",  "epoch ends",         "step done",      "epoch begins", "step 1"};
  ASSERT_GE(events.size(), repeated.size()) << ::testing::PrintToString(events);
  EXPECT_EQ(EventNames(events.begin(), events.begin() + std::ssize(repeated)), repeated);
}

TEST(Callbacks, GetNoEventsAfterAnInterruption) {
  LoopHooks hooks;
  for (Hooks* const hook : {static_cast<Hooks*>(nullptr), static_cast<Hooks*>(&hooks)}) {
    RecordedRun run(hook);
    run.callback->stops_at = 1;
    EXPECT_EQ(run.run(), (EventNames{"run begins", "epoch begins", "step 1", "pending", "step ends", "step done",
                                     "training interrupted"}));
  }
}

TEST(Callbacks, KeepTheHostFromRunningAheadIfTheyNeedResults) {
  RecordedRun run(nullptr, {"backend=gpu"});
  ASSERT_TRUE(run.session.trainer.stepper().may_resolve_late());
  for (const bool needs : {false, true}) {
    run.callback->needs = needs;
    EXPECT_EQ(run.loop->may_run_ahead(StepResult{}, StepStart{}), !needs);
  }
}

// ---- early stopping -------------------------------------------------------------------------------------------------

// Returns after how many evaluations with these values the run stops; 0: it does not.
int64_t stops_after(const std::string& settings, const std::vector<double>& values) {
  class Silent : public Observer {};
  Silent observer;
  const std::atomic<int> stop{0};
  const schema::Recipe recipe = two_epochs({"data.eval={format: synthetic, samples: 8, features: [3], classes: 2}",
                                            "train.early_stopping={patience: 2, " + settings + "}"});
  const RunRequest request{.recipe = recipe, .observer = observer, .stop = stop};
  Session session(recipe, nullptr);
  RunRecord record(request, session, nullptr);
  record.begin_without_store("run", "name", {});
  TrainState state(session, nullptr, stop);
  EarlyStoppingCallback callback(*recipe.train.early_stopping, state, record);
  for (size_t i = 0; i < values.size(); ++i) {
    record.points().add(recipe.train.early_stopping->metric, static_cast<int64_t>(i), values[i]);
    callback.on_evaluation_due();
    if (state.stopped_early) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopping, EndsARunWhoseMetricDoesNotImprove) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(stops_after("mode: min", {3, 2, 1, 0.5}), 0);
  EXPECT_EQ(stops_after("mode: min", {3, 4, 5}), 3);
  EXPECT_EQ(stops_after("mode: min", {3, 4, 2, 2.5, 1}), 0) << "an improvement starts the count again";
  EXPECT_EQ(stops_after("mode: min", {3, 3, 3}), 3) << "an equal value is no improvement";
  EXPECT_EQ(stops_after("metric: eval/loss", {3, 4, 5}), 3) << "mode: auto";
  EXPECT_EQ(stops_after("metric: eval/accuracy", {0.5, 0.6, 0.7}), 0) << "mode: auto";
  EXPECT_EQ(stops_after("metric: eval/accuracy", {0.7, 0.6, 0.5}), 3) << "mode: auto";
  EXPECT_EQ(stops_after("mode: max", {1, 2, 3}), 0);
  EXPECT_EQ(stops_after("mode: max", {3, 2, 1}), 3);
  EXPECT_EQ(stops_after("mode: min, min_delta: 0.5", {3, 2.75, 2.5}), 3) << "less than min_delta";
  EXPECT_EQ(stops_after("mode: min, min_delta: 0.5", {3, 2.75, 2.25}), 0) << "compared with the best value";
  EXPECT_EQ(stops_after("mode: min", {3, kNaN, kNaN}), 3) << "NaN is no improvement";
  EXPECT_EQ(stops_after("mode: min", {kNaN, 3, 2}), 0);
}

}  // namespace
}  // namespace runner::train
