// A run that was interrupted or killed and resumed is bit-identical to an uninterrupted one.

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/ir/ops.h"
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
  std::string table = "a,b,label\n";
  for (int i = 0; i < 12; ++i) table += std::to_string(i) + ".5,1.25," + std::to_string(i % 3) + "\n";
  write("table.csv", table);
  ASSERT_EQ(train(kRowByRow, {.stop_after = 2}).exit_code, 4);
  write("table.csv", table + "7.5,1.5,2\n");
  try {
    train(kRowByRow, {.resume = "@last"});
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

// ---- the same optimizer steps, divided into other batches ----------------------------------------------------------

// Optimizer steps of 24 samples, the last of an epoch of 19. The recipe has everything whose result could depend on the
// batches.
constexpr const char* kDivided = R"(schema_version: 1
name: divided
seed: 5
gradient_accumulation_steps: 2
model: {type: mlp, hidden: [12, 8], activation: gelu, layer_norm: true, dropout: 0.25}
data:
  train: {format: synthetic, samples: 67, features: [6], classes: 3}
  eval: {format: synthetic, samples: 20, features: [6], classes: 3}
  batch_size: 12
optimizer: {type: sgd, lr: 0.1, momentum: 0.9}
scheduler: {type: cosine, warmup: 30 samples}
train: {epochs: 4, clip_grad_norm: 0.5, class_weights: [1, 2, 0.5], label_smoothing: 0.1, ema: {decay: 0.9}}
eval: {every: 1 epoch}
checkpoint: {every: 1 epoch}
log: {every: 1 step}
)";

class DividedSteps : public RunFixture {
 protected:
  // Returns all overrides, those of `more` instead of earlier ones of the same key.
  static std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
    for (const std::string& each : more) {
      const std::string key = each.substr(0, each.find('=') + 1);
      std::erase_if(all, [&](const std::string& earlier) { return earlier.starts_with(key); });
      all.push_back(each);
    }
    return all;
  }

  // Compares all points and weights of the last run with those of an uninterrupted one, up to rounding.
  void expect_equal(const std::string& store, const std::string& whole) {
    for (const char* metric : {"train/loss", "train/lr", "train/grad_norm", "eval/loss", "eval/accuracy"}) {
      const auto got = points(metric, store), want = points(metric, whole);
      ASSERT_EQ(got.size(), want.size()) << metric;
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].first, want[i].first) << metric;
        EXPECT_NEAR(got[i].second, want[i].second, 2e-5 * std::max(1.0, std::abs(want[i].second)))
            << metric << " at step " << want[i].first;
      }
    }
    const auto got = last_state(store), want = last_state(whole);
    for (const auto& [name, bytes] : want) {
      if (!name.starts_with("model/") && !name.starts_with("optimizer/")) continue;
      const auto& other = got.at(name);
      ASSERT_EQ(other.size(), bytes.size()) << name;
      for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
        float a = 0, b = 0;
        std::memcpy(&a, bytes.data() + at, sizeof a);
        std::memcpy(&b, other.data() + at, sizeof b);
        ASSERT_NEAR(a, b, 2e-5F) << name << " at byte " << at;
      }
    }
  }

  // Trains with `common` and stops after step `stop`, then resumes with `changes`. Compares with an uninterrupted run.
  void expect_same(const std::vector<std::string>& common, const std::vector<std::string>& changes, int64_t stop) {
    SCOPED_TRACE(fmt::format("{} then {}, after step {}", fmt::join(common, " "), fmt::join(changes, " "), stop));
    const std::string whole = fmt::format("whole {}.db", fmt::join(common, " "));
    if (!std::filesystem::exists(path(whole))) {
      ASSERT_EQ(train(kDivided, {.store = whole, .overrides = common}).exit_code, 0);
    }
    const std::string store = fmt::format("part {} {}.db", fmt::join(with(common, changes), " "), stop);
    const RunResult part = train(kDivided, {.store = store, .overrides = common, .stop_after = stop});
    ASSERT_EQ(part.exit_code, 4);
    ASSERT_LT(part.optimizer_steps, 12);  // ranks may make another step
    const RunResult rest =
        train(kDivided, {.store = store, .resume = "@last", .other_batches = true, .overrides = with(common, changes)});
    EXPECT_EQ(rest.exit_code, 0);
    EXPECT_EQ(rest.optimizer_steps, 12);
    EXPECT_EQ(rest.samples, 4 * 67);
    EXPECT_EQ(rest.epochs, 4);
    EXPECT_EQ(fmt::format("{}", fmt::join(rest.warnings, "")).find("global batch"), std::string::npos);
    expect_equal(store, whole);
  }

  std::string error_of(const std::vector<std::string>& common, const std::vector<std::string>& changes,
                       const MakeHooks& make_hooks = nullptr, int64_t stop = 2) {
    std::filesystem::remove(path("refused.db"));
    EXPECT_EQ(
        train(kDivided, {.store = "refused.db", .overrides = common, .stop_after = stop, .make_hooks = make_hooks})
            .exit_code,
        4);
    return refusal("refused.db", with(common, changes), make_hooks);
  }

  std::string refusal(const std::string& store, const std::vector<std::string>& overrides,
                      const MakeHooks& make_hooks = nullptr) {
    const auto before = last_state(store);
    try {
      train(
          kDivided,
          {.store = store, .resume = "@last", .other_batches = true, .overrides = overrides, .make_hooks = make_hooks});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(last_state(store), before);
      return error.message();
    }
  }
};

TEST_F(DividedSteps, GiveTheSameRunWithOneProcess) {
  for (const int64_t stop : {1, 3, 5}) {
    expect_same({}, {"data.batch_size=24", "gradient_accumulation_steps=1"}, stop);
    expect_same({}, {"data.batch_size=4", "gradient_accumulation_steps=6"}, stop);
    expect_same({}, {"data.batch_size=3", "gradient_accumulation_steps=8"}, stop);
  }
}

TEST_F(DividedSteps, GiveTheSameRunWithOtherProcesses) {
  for (const std::vector<std::string>& backend :
       {std::vector<std::string>{"backend=gpu"}, {"backend=tpu", "tpu.matmul_precision=highest"}}) {
    for (const char* split : {"split_batches=false", "split_batches=true"}) {
      const bool splits = std::string(split) == "split_batches=true";
      const auto size = [splits](int64_t global, int64_t ranks) {
        return fmt::format("data.batch_size={}", splits ? global : global / ranks);
      };
      const auto three = with(backend, {"num_processes=3", split, size(12, 3)});
      expect_same(three, {"num_processes=1", size(12, 1)}, 2);
      expect_same(three, {"num_processes=1", size(24, 1), "gradient_accumulation_steps=1"}, 2);
      expect_same(three, {"num_processes=2", size(8, 2), "gradient_accumulation_steps=3"}, 4);
      expect_same(three, {size(24, 3), "gradient_accumulation_steps=1"}, 5);
    }
    const auto two = with(backend, {"num_processes=2", "data.batch_size=6"});
    expect_same(with(two, {"data.even_batches=false"}), {"num_processes=3", "data.batch_size=4"}, 1);
    expect_same(with(two, {"data.dispatch_batches=true"}), {"data.batch_size=12", "gradient_accumulation_steps=1"}, 1);
  }
}

// Samples are left out, or shared by optimizer steps, where the batches do not fit.
TEST_F(DividedSteps, GiveTheSameRunIfAllBatchesAreFull) {
  const std::vector<std::string> full{"data.train={format: synthetic, samples: 60, features: [6], classes: 3}"};
  for (const char* option : {"data.drop_last=true", "sync_with_dataloader=false"}) {
    const auto common = with(full, {option, "train.epochs=6", "checkpoint.every=5 steps", "eval.every=1 step"});
    const int64_t steps = option == std::string("data.drop_last=true") ? 18 : 15;
    for (int64_t stop = 1; stop < steps; stop += 4) {
      SCOPED_TRACE(fmt::format("{} after {}", option, stop));
      const std::string whole = fmt::format("whole{}.db", steps), store = fmt::format("part{}.{}.db", steps, stop);
      if (stop == 1) {
        ASSERT_EQ(train(kDivided, {.store = whole, .overrides = common}).optimizer_steps, steps);
      }
      ASSERT_EQ(train(kDivided, {.store = store, .overrides = common, .stop_after = stop}).exit_code, 4);
      const std::vector<std::string> changes{"data.batch_size=4", "gradient_accumulation_steps=6"};
      const RunResult rest = train(
          kDivided, {.store = store, .resume = "@last", .other_batches = true, .overrides = with(common, changes)});
      EXPECT_EQ(rest.optimizer_steps, steps);
      expect_equal(store, whole);
    }
  }
}

// The second change comes after states with the first one, and before the run has saved any with the second.
TEST_F(DividedSteps, MayChangeSeveralTimes) {
  ASSERT_EQ(train(kDivided, {.store = "whole.db"}).exit_code, 0);
  ASSERT_EQ(train(kDivided, {.stop_after = 2}).exit_code, 4);
  const std::vector<std::string> small{"data.batch_size=4", "gradient_accumulation_steps=6"};
  const std::vector<std::string> large{"data.batch_size=24", "gradient_accumulation_steps=1"};
  ASSERT_EQ(train(kDivided, {.resume = "@last", .other_batches = true, .overrides = small, .stop_after = 5}).exit_code,
            4);
  ASSERT_EQ(train(kDivided, {.resume = "@last", .overrides = large, .stop_after = 8}).exit_code, 4);
  ASSERT_EQ(train(kDivided, {.resume = "@last"}).exit_code, 0);
  expect_equal("runner.db", "whole.db");
}

TEST_F(DividedSteps, AreRefusedWhereTheyCouldNotBeTheSame) {
  const std::vector<std::string> small{"data.batch_size=8", "gradient_accumulation_steps=3"};
  EXPECT_EQ(
      error_of({"data.drop_last=true"}, small),
      "the run cannot continue with other batches: data.drop_last leaves out other samples with batches of 8 than "
      "with 12; keep data.batch_size and gradient_accumulation_steps, or use `runner fork`");
  EXPECT_EQ(error_of({"sync_with_dataloader=false"}, small),
            "the run cannot continue with other batches: with sync_with_dataloader: false, the last batch of an epoch "
            "must be full, but 67 samples are not a multiple of 12 and 8; keep data.batch_size and "
            "gradient_accumulation_steps, or use `runner fork`");
  const auto train_all = [](CustomLoop& loop, HookRun&) { train_epochs(loop); };
  EXPECT_EQ(error_of({"train.clip_grad_norm=null"}, small, hooks_with({.train = train_all})),
            "the run cannot continue with other batches: the hook's train may compute anything with a batch; keep "
            "data.batch_size and gradient_accumulation_steps, or use `runner fork`");
  // The command line compares with the recipe; the state has other steps if a hook has changed them.
  EXPECT_EQ(error_of({}, {"data.batch_size=8"}),
            "the run cannot continue with other batches: optimizer steps have 24 samples in the state, but 16 in the "
            "recipe; keep data.batch_size and gradient_accumulation_steps, or use `runner fork`");
}

TEST_F(DividedSteps, AreRefusedWithinAnOptimizerStep) {
  std::atomic<int> stop{0};
  const auto at_batch = [&] { return std::make_shared<StopAtBatch>(3, stop); };
  ASSERT_EQ(train(kDivided, {.stop = &stop, .make_hooks = hooks_with({.transform = at_batch})}).exit_code, 4);
  EXPECT_EQ(
      refusal("runner.db", {"data.batch_size=8", "gradient_accumulation_steps=3"}),
      "the run cannot continue with other batches: the state was saved within an optimizer step, after 1 of its 2 "
      "batches; keep data.batch_size and gradient_accumulation_steps, choose a state between optimizer steps with "
      "--state, or use `runner fork`");
}

}  // namespace
}  // namespace runner::train
