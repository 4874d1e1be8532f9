// A run that was interrupted or killed and resumed is bit-identical to an uninterrupted one.

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "store/state_store.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

// Everything that has state: dropout, momentum, accumulation with short optimizer steps, plateau, early stopping,
// clipping.
constexpr const char* kEverything = R"(schema_version: 1
name: everything
seed: 11
gradient_accumulation_steps: 3
model: {type: mlp, hidden: [12, 8], activation: gelu, layer_norm: true, dropout: 0.25}
data:
  train: {format: synthetic, samples: 67, features: [6], classes: 4}
  eval: {format: synthetic, samples: 20, features: [6], classes: 4}
  batch_size: 8
optimizer:
  type: adamw
  lr: 0.01
  amsgrad: true
  groups:
    - {params: ["*.bias"], weight_decay: 0, lr: 0.02}
scheduler: {type: plateau, patience: 0, metric: eval/loss}
train: {epochs: 5, clip_grad_norm: 0.5, early_stopping: {patience: 50}}
eval: {every: 4 steps}
checkpoint: {every: 2 steps}
log: {every: 3 steps}
)";

constexpr const char* kComparedMetrics[] = {"train/loss", "train/lr",      "train/grad_norm",
                                            "eval/loss",  "eval/accuracy", kBatchDigest};

using ResumeTest = RunFixture;

TEST_F(ResumeTest, AfterAnInterruptAtAnyStep) {
  const RunResult whole = train(kEverything, {.store = "whole.db"});
  ASSERT_EQ(whole.exit_code, 0);
  ASSERT_EQ(whole.optimizer_steps, 15);
  const auto want = last_state("whole.db");
  for (int64_t stop = 1; stop < whole.optimizer_steps; ++stop) {
    SCOPED_TRACE("interrupted after step " + std::to_string(stop));
    const std::string store = "parts" + std::to_string(stop) + ".db";
    const RunResult part = train(kEverything, {.store = store, .stop_after = stop});
    EXPECT_EQ(part.exit_code, 4);
    EXPECT_EQ(part.optimizer_steps, stop);
    const RunResult rest = train(kEverything, {.store = store, .resume = "@last"});
    EXPECT_EQ(rest.exit_code, 0);
    EXPECT_EQ(rest.run, part.run);
    EXPECT_EQ(last_state(store), want);
    for (const char* metric : kComparedMetrics) EXPECT_EQ(points(metric, store), points(metric, "whole.db")) << metric;
    for (const auto& [name, range] : whole.metrics) {
      if (name == "train/samples_per_s") continue;
      EXPECT_EQ(rest.metrics.at(name).min, range.min) << name;
      EXPECT_EQ(rest.metrics.at(name).max, range.max) << name;
      EXPECT_EQ(rest.metrics.at(name).last, range.last) << name;
    }
  }
}

// Asks the run to stop at its `batch`-th training batch.
class StopAtBatch : public data::Transform {
 public:
  StopAtBatch(int64_t batch, std::atomic<int>& stop) : left_(batch), stop_(stop) {}
  void apply(const data::Sample&) override {}
  void pass_on(int64_t) override {
    if (--left_ == 0) stop_ = 1;
  }

 private:
  int64_t left_;
  std::atomic<int>& stop_;
};

// Optimizer steps of three batches, which end with the epoch (of nine batches), or of four, which cross its end.
TEST_F(ResumeTest, AfterAnInterruptAtAnyBatchOfAnOptimizerStep) {
  for (const int64_t accumulation : {3, 4}) {
    const std::vector<std::string> overrides{"train.epochs=2",
                                             "eval.every=1 step",
                                             "train.early_stopping=null",
                                             "checkpoint.every=1 epoch",
                                             fmt::format("gradient_accumulation_steps={}", accumulation),
                                             fmt::format("sync_with_dataloader={}", accumulation == 3)};
    const std::string whole = fmt::format("whole{}.db", accumulation);
    ASSERT_EQ(train(kEverything, {.store = whole, .overrides = overrides}).exit_code, 0);
    for (int64_t batch = 1; batch < (accumulation == 3 ? 18 : 16); ++batch) {
      SCOPED_TRACE(fmt::format("K {}, interrupted at batch {}", accumulation, batch));
      const std::string store = fmt::format("parts{}.{}.db", accumulation, batch);
      std::atomic<int> stop{0};
      const auto at_batch = [&] { return std::make_shared<StopAtBatch>(batch, stop); };
      const RunResult part = train(
          kEverything,
          {.store = store, .overrides = overrides, .stop = &stop, .make_hooks = hooks_with({.transform = at_batch})});
      EXPECT_EQ(part.exit_code, 4);
      EXPECT_EQ(part.optimizer_steps, batch / accumulation);
      EXPECT_EQ(last_state(store).contains("gradient/0.weight"), batch % accumulation != 0);
      const RunResult rest = train(kEverything, {.store = store, .resume = "@last", .overrides = overrides});
      EXPECT_EQ(rest.exit_code, 0);
      EXPECT_EQ(rest.samples, accumulation == 3 ? 2 * 67 : 67 + 56);
      EXPECT_EQ(last_state(store), last_state(whole));
      for (const char* metric : kComparedMetrics) EXPECT_EQ(points(metric, store), points(metric, whole)) << metric;
    }
  }
}

// The second epoch begins within the third optimizer step. Checkpoints are saved where their interval ends.
TEST_F(ResumeTest, IntervalsInEpochsAndSamplesEndWithinOptimizerSteps) {
  const auto moments = [this](const std::string& every) {
    const RunResult result = train(
        kEverything, {.store = "runner.db",
                      .overrides = {"train.epochs=2", "gradient_accumulation_steps=4", "sync_with_dataloader=false",
                                    "eval.every=1 step", fmt::format("checkpoint.every={}", every)}});
    EXPECT_EQ(result.exit_code, 0);
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    std::vector<std::pair<int64_t, bool>> found;  // step, and whether it is within an optimizer step
    for (const store::StateInfo& state : store::list_states(store, store::find_run(store, "@last").id, true)) {
      const store::LoadedState loaded = store::load_state(store, state.id);
      found.emplace(found.begin(), state.step, loaded.find("gradient/0.weight") != nullptr);
    }
    return found;
  };
  using Moments = std::vector<std::pair<int64_t, bool>>;
  EXPECT_EQ(moments("1 epoch"), (Moments{{2, true}, {4, false}}));
  EXPECT_EQ(moments("40 samples"), (Moments{{1, true}, {2, true}, {4, false}}));
  EXPECT_EQ(moments("2 steps"), (Moments{{2, false}, {4, false}}));
}

// Number of kills; RUNNER_KILLS overrides it (target kill_loop: 1000).
int64_t kills() {
  const char* text = std::getenv("RUNNER_KILLS");
  return text ? std::atoll(text) : 20;
}

// A child sets a timer after one of its first steps, and the timer kills it. So only a child that finishes before then
// is not killed.
TEST_F(ResumeTest, AfterBeingKilledAtRandomMoments) {
  ASSERT_EQ(train(kEverything, {.store = "whole.db"}).exit_code, 0);
  const auto want = last_state("whole.db");
  // Trains, resuming from the newest checkpoint if there is one.
  const auto continue_run = [this](const std::string& store, const std::function<void(const RunProgress&)>& on_step) {
    bool resumes = false;
    try {
      resumes = !last_state(store).empty();
    } catch (const std::exception&) {  // no store, run or checkpoint yet
    }
    return train(kEverything, {.store = store, .resume = resumes ? "@last" : "", .on_step = on_step}).exit_code;
  };
  std::mt19937 random(2024);
  for (int64_t killed = 0, round = 0; killed < kills(); ++round) {
    const int64_t killed_before = killed;
    const std::string store = "killed" + std::to_string(round) + ".db";
    bool done = false;
    for (int attempt = 0; attempt < 8 && !done; ++attempt) {
      auto steps_left = static_cast<int64_t>(random() % 4);
      const auto delay = static_cast<useconds_t>(1 + random() % 1'000);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0)
        _exit(continue_run(store, [&](const RunProgress&) {
          if (steps_left-- == 0) ualarm(delay, 0);
        }));
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      killed += WIFSIGNALED(status);
      done = WIFEXITED(status);
      ASSERT_TRUE(!done || WEXITSTATUS(status) == 0);
    }
    ASSERT_GT(killed, killed_before) << "no child was killed in round " << round;
    if (!done) {
      ASSERT_EQ(continue_run(store, {}), 0);
    }
    EXPECT_EQ(last_state(store), want) << "round " << round;
    for (const char* metric : kComparedMetrics) EXPECT_EQ(points(metric, store), points(metric, "whole.db")) << metric;
  }
}

TEST_F(ResumeTest, OnChangedDataIsRejectedWithTheDifference) {
  const std::string recipe = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: table.csv}, batch_size: 4}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 4}
)";
  std::string table = "a,b,label\n";
  for (int i = 0; i < 12; ++i) table += std::to_string(i) + ".5,1.25," + std::to_string(i % 3) + "\n";
  write("table.csv", table);
  ASSERT_EQ(train(recipe, {.stop_after = 2}).exit_code, 4);
  write("table.csv", table + "7.5,1.5,2\n");
  try {
    train(recipe, {.resume = "@last"});
    FAIL() << "a run was resumed on changed data";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_EQ(error.message(),
              "data.train differs from the data that the run was trained on: 12 samples -> 13; restore the data, or "
              "start a new run");
  }
}

TEST_F(ResumeTest, WithMoreEpochsContinues) {
  const std::string recipe = R"(schema_version: 1
model: {type: mlp, hidden: [8]}
data: {train: {format: synthetic, samples: 40, features: [5], classes: 3}, batch_size: 8}
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
train: {epochs: 4}
)";
  ASSERT_EQ(train(recipe, {.store = "whole.db"}).exit_code, 0);
  ASSERT_EQ(train(recipe, {.overrides = {"train.epochs=2"}}).optimizer_steps, 10);
  ASSERT_EQ(train(recipe, {.resume = "@last"}).optimizer_steps, 20);
  EXPECT_EQ(last_state(), last_state("whole.db"));
}

}  // namespace
}  // namespace runner::train
