// Runs: NaN, early stopping, freezing, initial weights, interrupts, records.

#include <cmath>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runner/formats/model_files.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/exported_model.h"
#include "runner/train/run/stored_model.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/thrown_text.h"
#include "tests/train/run_fixture.h"
#include "tests/train/test_hooks.h"

namespace runner::train {
namespace {

using RunTest = RunFixture;

const std::string kSmall = std::string(kFourEpochs) + "log: {every: 1 step}\n";

TEST_F(RunTest, RecordsItsResults) {
  const RunResult result = train(kSmall);
  EXPECT_EQ(result.status, store::RunStatus::kDone);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.backend, "cpu");
  EXPECT_EQ(result.epochs, 4);
  EXPECT_EQ(result.optimizer_steps, 20);
  EXPECT_EQ(result.samples, 200);
  EXPECT_EQ(result.states.size(), 1u);
  EXPECT_GT(result.first_step_seconds, 0);
  EXPECT_GE(result.seconds, result.first_step_seconds);
  EXPECT_EQ(points("train/loss").size(), 20u);
  EXPECT_EQ(points("eval/loss").size(), 4u);
  EXPECT_EQ(points("eval/accuracy").back().first, 20);
  EXPECT_EQ(points("train/lr").front(), std::pair(int64_t{1}, 0.01));
  EXPECT_EQ(result.metrics.at("train/loss").last, points("train/loss").back().second);
}

TEST_F(RunTest, CountsFinishedEpochsLikeItsCheckpoints) {
  for (const auto& [steps, epochs] : {std::pair{4, 0}, {5, 1}, {9, 1}}) {
    const RunResult result = train(kSmall, {.overrides = {fmt::format("train.steps={}", steps)}});
    EXPECT_EQ(result.epochs, epochs);
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    const store::RunRow run = store::find_run(store, result.run);
    EXPECT_EQ(store::list_states(store, run.id).front().epoch, epochs);
  }
}

// The other processes report their start and then block.
TEST_F(RunTest, IsInterruptedWhileItsProcessesAreStarted) {
  for (const char* fifo : {"started", "never"}) ASSERT_EQ(::mkfifo(path(fifo).c_str(), 0600), 0);
  write("wait",
        fmt::format("#!/bin/sh\necho > {}\nread -r nothing < {}\n", path("started").string(), path("never").string()));
  std::filesystem::permissions(path("wait"), std::filesystem::perms::owner_all);
  std::atomic<int> stop{0};
  std::thread stopper([&] {
    std::ifstream(path("started")).get();
    stop = 1;
  });
  const auto interrupted = [&](const std::string& program) {
    try {
      train(kSmall, {.overrides = {"num_processes=2"}, .stop = &stop, .rank_program = program});
      return std::string("it ran");
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), 4);
      return error.message();
    }
  };
  EXPECT_EQ(interrupted(path("wait")), "interrupted while starting 2 processes; nothing was recorded");
  stopper.join();
  EXPECT_EQ(interrupted("/no/program"), "interrupted while starting 2 processes; nothing was recorded");
  EXPECT_FALSE(std::filesystem::exists(path("runner.db")));
}

// Requested by the last rank that makes its hooks, which has none.
TEST_F(RunTest, IsInterruptedWhileItIsPrepared) {
  for (const char* backend : {"cpu", "gpu", "tpu"})
    for (const int ranks : {1, 8}) {
      if (ranks > 1 && std::string_view(backend) == "cpu") continue;  // processes have a test of their own
      SCOPED_TRACE(fmt::format("{} {}", backend, ranks));
      std::atomic<int> stop{0}, made{0};
      const auto no_hooks = [&](const schema::Recipe&) {
        if (++made == ranks) stop = 1;
        return std::unique_ptr<Hooks>();
      };
      const std::vector<std::string> overrides{fmt::format("backend={}", backend),
                                               fmt::format("num_processes={}", ranks)};
      try {
        train(kSmall, {.overrides = overrides, .stop = &stop, .make_hooks = no_hooks});
        ADD_FAILURE() << "the run was not interrupted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
        EXPECT_EQ(error.message(), "interrupted before the run began");
      }
      EXPECT_FALSE(std::filesystem::exists(path("runner.db")));
    }
}

TEST_F(RunTest, RunsNoStepIfInterruptedBeforeTheFirst) {
  for (const char* backend : {"cpu", "gpu", "tpu"})
    for (const int ranks : {1, 2}) {
      if (ranks > 1 && std::string_view(backend) == "cpu") continue;  // processes
      SCOPED_TRACE(fmt::format("{} {}", backend, ranks));
      const std::vector<std::string> overrides{fmt::format("backend={}", backend),
                                               fmt::format("num_processes={}", ranks)};
      const RunResult result = train(kSmall, {.stop_at_start = true, .overrides = overrides});
      EXPECT_EQ(result.exit_code, 4);
      EXPECT_EQ(result.optimizer_steps, 0);
      EXPECT_EQ(result.states.size(), 1);
      const RunResult resumed = train(kSmall, {.resume = result.run, .overrides = overrides});
      EXPECT_EQ(resumed.exit_code, 0);
    }
}

// Requests a stop while the first batch is made.
struct StoppingTransform final : data::Transform {
  explicit StoppingTransform(std::atomic<int>& stop_) : stop(stop_) {}
  void apply(const data::Sample&) override { stop = 1; }

  std::atomic<int>& stop;
};

TEST_F(RunTest, RanksStopWhileTheFirstBatchIsMade) {
  for (const char* prefetch : {"data.prefetch=0", "data.prefetch=4"}) {
    SCOPED_TRACE(prefetch);
    std::atomic<int> stop{0};
    const auto hooks = hooks_with({.transform = [&] { return std::make_shared<StoppingTransform>(stop); }});
    const RunResult result =
        train(kSmall, {.overrides = {"backend=gpu", "num_processes=2", prefetch}, .stop = &stop, .make_hooks = hooks});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(result.optimizer_steps, 0);
    EXPECT_EQ(result.states.size(), 1);
  }
}

// An epoch of 3 steps. The ranks do not run the first step of the next one to find out that one was asked to stop.
TEST_F(RunTest, RanksStopBeforeAnEpoch) {
  const auto hooks = hooks_with({.train = [](CustomLoop& loop, HookRun&) { train_epochs(loop); }});
  for (const MakeHooks& make_hooks : {MakeHooks(), MakeHooks(hooks)}) {
    const RunResult result =
        train(kSmall, {.overrides = {"backend=gpu", "num_processes=2"}, .stop_after = 3, .make_hooks = make_hooks});
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_EQ(result.optimizer_steps, 3);
    EXPECT_EQ(result.epochs, 1);
  }
}

TEST_F(RunTest, LossesBetweenPointsAreMeans) {
  ASSERT_EQ(train(kSmall, {.store = "each.db"}).exit_code, 0);
  ASSERT_EQ(train(kSmall, {.store = "fifth.db", .overrides = {"log.every=5 steps"}}).exit_code, 0);
  const auto each = points("train/loss", "each.db"), fifth = points("train/loss", "fifth.db");
  ASSERT_EQ(fifth.size(), 4u);
  for (size_t i = 0; i < fifth.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < 5; ++j) sum += each[i * 5 + j].second;
    EXPECT_NEAR(fifth[i].second, sum / 5, 1e-12);
  }
}

TEST_F(RunTest, AccumulationMatchesLargeBatches) {
  const std::vector<std::string> common = {"optimizer.type=sgd", "data.shuffle=false"};
  const auto with = [&](const char* batch, const char* steps) {
    std::vector<std::string> overrides = common;
    overrides.push_back(std::string("data.batch_size=") + batch);
    overrides.push_back(std::string("gradient_accumulation_steps=") + steps);
    return overrides;
  };
  // 50 samples: optimizer steps of 30 and 20, however they are divided into batches.
  ASSERT_EQ(train(kSmall, {.store = "big.db", .overrides = with("30", "1")}).exit_code, 0);
  const auto whole = points("train/loss", "big.db");
  for (const auto& [batch, steps] :
       {std::pair("15", "2"), std::pair("10", "3"), std::pair("6", "5"), std::pair("3", "10")}) {
    SCOPED_TRACE(batch);
    const std::string store = std::string("cut") + batch + ".db";
    ASSERT_EQ(train(kSmall, {.store = store, .overrides = with(batch, steps)}).exit_code, 0);
    const auto cut = points("train/loss", store);
    ASSERT_EQ(cut.size(), whole.size());
    for (size_t i = 0; i < cut.size(); ++i) EXPECT_NEAR(cut[i].second, whole[i].second, 1e-6 * whole[i].second) << i;
  }
}

TEST_F(RunTest, StopsAtANotFiniteLossAndReportsTheCause) {
  write("table.csv", "a,b,label\n1,2,0.5\n3,1e30,0.25\n2,2,0.125\n1,1,0.5\n");
  const RunResult result = train(kRowByRow);
  EXPECT_EQ(result.status, store::RunStatus::kFailed);
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->message,
            "the loss of step 2 is not finite: the result of mul (1, 1) f32 in the forward pass is inf; use a smaller "
            "optimizer.lr or train.clip_grad_norm, or set train.on_nan: skip to skip such steps");
  EXPECT_EQ(result.optimizer_steps, 1);
  EXPECT_EQ(result.states.size(), 1u);  // the model before the step
}

TEST_F(RunTest, GivesUsefulAdviceForNotFiniteLosses) {
  write("table.csv", "a,label\n1,0.5\n1,0.25\n");
  const float weights[] = {NAN}, bias[] = {0};
  const auto bytes = [](const float* value) { return std::as_bytes(std::span(value, 1)); };
  formats::write_safetensors(path("w.safetensors").string(),
                             {{"0.weight", backends::DType::kF32, {1, 1}, bytes(weights)},
                              {"0.bias", backends::DType::kF32, {1}, bytes(bias)}});
  const RunResult from = train(kRowByRow, {.overrides = {"model.init_from=w.safetensors"}});
  ASSERT_TRUE(from.error);
  EXPECT_EQ(from.error->message,
            "the loss of step 1 is not finite: parameter 0.weight is nan; check the file of model.init_from or "
            "model.pretrained");
  // The first step makes the weights overflow, which a smaller learning rate would prevent.
  const RunResult blown = train(kRowByRow, {.overrides = {"optimizer.lr=1e38"}});
  ASSERT_TRUE(blown.error);
  EXPECT_NE(blown.error->message.find("; use a smaller optimizer.lr or train.clip_grad_norm, or "), std::string::npos)
      << blown.error->message;
}

TEST_F(RunTest, WarnsOfMissingValues) {
  write("table.csv", "a,b,label\n1,,0.5\n3,1,0.25\n2,2,0.125\n,1,\n");
  EXPECT_EQ(train(kRowByRow, {.overrides = {"data.train.missing=drop"}}).warnings,
            (std::vector<std::string>{"data.train: 2 of 4 rows were dropped: a value is missing"}));
}

TEST_F(RunTest, SkipsANotFiniteStepWithOnNanSkip) {
  write("table.csv", "a,b,label\n1,2,0.5\n3,1e30,0.25\n2,2,0.125\n1,1,0.5\n");
  const RunResult result =
      train(kRowByRow, {.overrides = {"optimizer.lr=0.01", "train.epochs=3", "train.on_nan=skip", "log.every=1 step"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.optimizer_steps, 12);
  EXPECT_EQ(result.skipped_steps, 3);
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_EQ(result.warnings[1], "3 of 12 steps were skipped: not finite");
  for (const auto& [step, loss] : points("train/loss")) EXPECT_EQ(std::isfinite(loss), step % 4 != 2) << step;
}

// Whether labels are numbers is known only after reading them.
TEST_F(RunTest, RejectsClassOptionsForNumericLabels) {
  write("table.csv", "a,b,label\n1,2,0.5\n3,1,0.25\n2,2,0.125\n1,1,0.5\n");
  EXPECT_EQ(train(kRowByRow).exit_code, 0);
  for (const char* option : {"class_weights=[1]", "label_smoothing=0.1", "ignore_index=0"}) {
    try {
      train(kRowByRow, {.overrides = {std::string("train.") + option}});
      ADD_FAILURE() << option;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
      const std::string key(option, std::string_view(option).find('='));
      EXPECT_EQ(error.message(),
                "train." + key + " needs classes, but the labels of data.train are numbers; remove it");
    }
  }
}

TEST_F(RunTest, RejectsAWarmupLongerThanTheRun) {
  const auto refused = [&](std::vector<std::string> overrides) -> std::string {
    overrides.push_back("data.batch_size=10");
    overrides.push_back("train.epochs=2");
    try {
      return train(kSmall, {.overrides = overrides}).exit_code == 0 ? "" : "it failed";
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(refused({"scheduler={type: linear, warmup: 10 steps}"}), "");
  EXPECT_EQ(refused({"scheduler={type: linear, warmup: 11 steps}"}),
            "scheduler.warmup, 11 steps, is longer than the schedule, 10 steps");
  EXPECT_EQ(refused({"scheduler={type: constant, warmup: 101 samples}"}),
            "scheduler.warmup, 11 steps, is longer than the schedule, 10 steps");
  EXPECT_EQ(refused({"scheduler={type: cosine, warmup: 6 steps, length: 1 epoch}"}),
            "scheduler.warmup, 6 steps, is longer than the schedule, 5 steps");
}

TEST_F(RunTest, StopsEarly) {
  const RunResult result = train(kSmall, {.overrides = {"train.epochs=200", "optimizer.lr=1e-12",
                                                        "train.early_stopping={patience: 2, min_delta: 0.001}"}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.epochs, 3);
  EXPECT_EQ(result.reason, "stopped early: eval/loss has not improved for 2 evaluations");
}

TEST_F(RunTest, AnEarlyEndIsLogged) {
  const RunResult result = train(kSmall, {.overrides = {"train.epochs=200", "optimizer.lr=1e-12", "log.every=4 steps",
                                                        "train.early_stopping={patience: 2, min_delta: 0.001}"}});
  EXPECT_EQ(result.optimizer_steps, 15);
  EXPECT_EQ(points("train/loss").back().first, 15);
}

TEST_F(RunTest, FrozenParametersKeepTheirBits) {
  ASSERT_EQ(train(kSmall, {.store = "start.db", .stop_after = 1}).exit_code, 4);
  ASSERT_EQ(train(kSmall, {.overrides = {"model.freeze=[0.*]"}}).exit_code, 0);
  const RunResult one = train(kSmall, {.store = "one.db", .overrides = {"model.freeze=[0.*]"}, .stop_after = 1});
  ASSERT_EQ(one.exit_code, 4);
  const auto first = last_state("one.db"), last = last_state();
  EXPECT_EQ(first.at("model/0.weight"), last.at("model/0.weight"));
  EXPECT_EQ(first.at("model/0.bias"), last.at("model/0.bias"));
  EXPECT_NE(first.at("model/2.weight"), last.at("model/2.weight"));
  EXPECT_FALSE(last.contains("optimizer/0.weight/exp_avg"));
}

TEST_F(RunTest, StartsFromWeightsOfAFile) {
  ASSERT_EQ(train(kSmall).exit_code, 0);
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  const auto states = store::list_states(store, store::find_run(store, "@last").id, true);
  const store::LoadedState state = store::load_state(store, states[0].id);
  export_model({.state = state}, path("weights.safetensors").string(), formats::kDefaultShardSize);
  const auto want = last_state();
  const RunResult result = train(
      kSmall,
      {.store = "second.db", .overrides = {"model.init_from=weights.safetensors", "optimizer.lr=0", "train.epochs=1"}});
  ASSERT_EQ(result.exit_code, 0);
  for (const char* name : {"model/0.weight", "model/0.bias", "model/2.weight", "model/2.bias"})
    EXPECT_EQ(last_state("second.db").at(name), want.at(name)) << name;
  EXPECT_THROW(train(kSmall, {.overrides = {"model.init_from=weights.safetensors", "model.hidden=[9]"}}), Error);
}

TEST_F(RunTest, ThreadsDoNotChangeBits) {
  const std::string recipe = R"(schema_version: 1
model: {type: mlp, hidden: [256], activation: gelu, layer_norm: true, dropout: 0.1}
data: {train: {format: synthetic, samples: 512, features: [300], classes: 7}, batch_size: 128}
optimizer: {type: adamw, lr: 1e-3}
train: {epochs: 2}
)";
  ASSERT_EQ(train(recipe, {.store = "one.db", .overrides = {"threads=1"}}).exit_code, 0);
  for (const char* threads : {"threads=2", "threads=3"}) {
    ASSERT_EQ(train(recipe, {.store = "more.db", .overrides = {threads}}).exit_code, 0);
    EXPECT_EQ(last_state("more.db"), last_state("one.db")) << threads;
  }
}

TEST_F(RunTest, RejectsClassWeightsThatDoNotFitBeforeTheRun) {
  write("table.csv", "a,label\n1,0\n2,1\n3,2\n");
  try {
    train(kRowByRow, {.overrides = {"train.class_weights=[1, 2]"}});
    FAIL() << "two class weights were accepted for three classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "train.class_weights: expected 3 weights, one per class in the order 0 to 2, got 2");
  }
}

// A list follows the order of the classes; a map names them; balanced counts the training part without ignored labels.
TEST_F(RunTest, ClassWeightsAreAListAMapOrBalanced) {
  write("table.csv", "a,label\n1,spam\n2,spam\n3,spam\n5,ham\n4,-1\n0.5,spam\n2.5,eggs\n");
  const auto losses = [&](const std::string& weights) {
    train(kRowByRow, {.overrides = {"data.batch_size=3", "train.epochs=3", "train.ignore_index=-1",
                                    "train.class_weights=" + weights}});
    return points("train/loss");
  };
  const auto plain = losses("null");
  EXPECT_EQ(losses("[2, 2, 0.5]"), losses("balanced")) << "6 / (3 · 1), 6 / (3 · 1), 6 / (3 · 4)";
  EXPECT_EQ(losses("[1, 1, 5]"), losses("{spam: 5}"));
  EXPECT_EQ(losses("[1, 1, 1]"), plain);
  EXPECT_NE(losses("{spam: 5}"), plain);
  EXPECT_EQ(losses("[3, 2, 1]"), losses("{ham: 2, eggs: 3}"));
  try {
    losses("{spm: 5}");
    FAIL() << "accepted an unknown class";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "train.class_weights: unknown class 'spm'; did you mean spam?");
  }
}

TEST_F(RunTest, WarningsAndFailuresAreEvents) {
  write("table.csv", "a,b,label\n1,2,0.5\n3,1e30,0.25\n2,2,0.125\n1,1,0.5\n");
  ASSERT_EQ(train(kRowByRow, {.overrides = {"train.on_nan=skip"}}).warnings.size(), 2u);
  EXPECT_EQ(events("warning").size(), 2u);
  ASSERT_EQ(train(kRowByRow).exit_code, 1);
  ASSERT_EQ(events("error").size(), 1u);
  EXPECT_NE(events("error")[0].find("\"step\":1"), std::string::npos) << events("error")[0];
}

TEST_F(RunTest, WarnsOfAStepWithoutWeight) {
  const RunResult result = train(kSmall, {.overrides = {"train.class_weights=[0, 0, 0]"}});
  ASSERT_EQ(result.warnings.size(), 3u);
  EXPECT_EQ(result.warnings[0],
            "train/loss of step 1 is NaN: no sample since the previous point has a weight above 0; check "
            "train.class_weights");
  EXPECT_EQ(result.warnings[1], "evaluation at step 5: the loss is NaN, because no sample has a weight above 0");
  EXPECT_EQ(result.warnings[2], "20 of 20 steps were skipped: no label counted");
}

TEST_F(RunTest, WarnsOfASingleClass) {
  write("table.csv", "a,label\n1,0\n2,0\n");
  const RunResult result = train(kRowByRow);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.warnings, std::vector<std::string>{"all labels are of one class; the model cannot learn anything"});
}

TEST_F(RunTest, WarnsIfALongerRunStretchesItsSchedule) {
  ASSERT_EQ(train(kSmall, {.overrides = {"scheduler={type: linear}"}}).exit_code, 0);
  const RunResult result =
      train(kSmall, {.resume = "@last", .longer = true, .overrides = {"scheduler={type: linear}", "train.epochs=8"}});
  EXPECT_EQ(result.optimizer_steps, 40);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(
      result.warnings[0],
      "the schedule is stretched to the longer run: train/lr was 0.0005 at step 20 and is 0.005 at step 21; to keep "
      "it as it was, use `runner fork RUN` with scheduler.length='20 steps' and scheduler.beyond=hold (the last "
      "rate) or restart (the schedule again)");
}

TEST_F(RunTest, DoesNotWarnOfAScheduleWhoseRateStays) {
  for (const char* scheduler :
       {"scheduler={type: constant, warmup: 10 %}", "scheduler={type: linear, warmup: 10 %, length: 2 epochs}"}) {
    ASSERT_EQ(train(kSmall, {.overrides = {scheduler}}).exit_code, 0);
    const RunResult result =
        train(kSmall, {.resume = "@last", .longer = true, .overrides = {scheduler, "train.epochs=8"}});
    for (const std::string& warning : result.warnings)
      EXPECT_EQ(warning.find("stretched"), std::string::npos) << warning;
  }
}

// A type without scheduler.length offers only keys that it has.
TEST_F(RunTest, WarnsOfAStretchedIntervalOfAStepSchedule) {
  const char* const scheduler = "scheduler={type: step, every: 10 %}";
  ASSERT_EQ(train(kSmall, {.overrides = {scheduler}}).exit_code, 0);
  const RunResult result =
      train(kSmall, {.resume = "@last", .longer = true, .overrides = {scheduler, "train.epochs=8"}});
  ASSERT_EQ(result.warnings.size(), 1u);
  const std::string_view end =
      "; to keep it as it was, use `runner fork RUN` with scheduler.every in steps or epochs instead of %";
  EXPECT_TRUE(result.warnings[0].ends_with(end)) << result.warnings[0];
}

// Errors before the run is recorded leave no store behind.
TEST_F(RunTest, RejectsMetricsThatDoNotFitBeforeTheRun) {
  try {
    train(kSmall, {.overrides = {"eval.metrics=[loss, top_20]"}});
    FAIL() << "top_20 was accepted for three classes";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), 2);
    EXPECT_EQ(error.message(), "eval.metrics: top_20 exceeds the 3 classes of the data");
  }
  EXPECT_FALSE(std::filesystem::exists(path("runner.db")));
}

class StoredModelTest : public RunFixture {
 protected:
  const std::string recipe_ = R"(schema_version: 1
model: {type: linear}
data:
  train: {format: csv, path: train.csv}
  eval: {format: csv, path: eval.csv}
  normalize: standard
  batch_size: 4
optimizer: {type: adam, lr: 0.1}
train: {epochs: 20}
)";
  static constexpr const char* kTable = "a,b,label\n1,2,0\n2,1,1\n1,3,0\n4,1,1\n1,4,0\n5,2,1\n";

  std::map<std::string, double> evaluate() {
    const schema::ReadResult read = schema::read_recipe(path("recipe.yaml").string(), {});
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    const auto states = store::list_states(store, store::find_run(store, "@last").id, true);
    return StoredModel(read.recipe, nullptr, store::load_state(store, states[0].id)).evaluate("");
  }
};

TEST_F(StoredModelTest, UsesTheNormalisationOfItsTraining) {
  write("train.csv", kTable);
  write("eval.csv", kTable);
  const RunResult result = train(recipe_);
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(evaluate().at("loss"), result.metrics.at("eval/loss").last);
  write("train.csv", "a,b,label\n100,2,0\n200,1,1\n");
  EXPECT_EQ(evaluate().at("loss"), result.metrics.at("eval/loss").last);
}

// Of the optimizer, evaluations use the averages of weights at most.
TEST_F(StoredModelTest, NeedsNoOptimizer) {
  write("train.csv", kTable);
  write("eval.csv", kTable);
  for (const char* optimizer : {"optimizer={type: adamw}", "optimizer={type: sgd, momentum: 0.9}"})
    for (const char* average : {"train.ema=null", "train.ema={decay: 0.9}"}) {
      SCOPED_TRACE(fmt::format("{} {}", optimizer, average));
      const std::vector<std::string> overrides = {optimizer, average};
      const RunResult result = train(recipe_, {.overrides = overrides});
      ASSERT_EQ(result.exit_code, 0);
      store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
      const schema::Recipe recipe = schema::read_recipe(path("recipe.yaml").string(), overrides).recipe;
      const int64_t id = result.states.back();
      const store::LoadedState all = store::load_state(store, id);
      store::LoadedState needed = store::load_state(store, id, is_of_evaluation);
      EXPECT_LT(needed.sections.size(), all.sections.size());
      for (const store::LoadedState* state : {&all, &std::as_const(needed)})
        EXPECT_EQ(StoredModel(recipe, nullptr, *state).evaluate("").at("loss"), result.metrics.at("eval/loss").last);
      const auto weight = std::ranges::find_if(
          needed.sections, [](const store::Section& section) { return section.name.starts_with("model/"); });
      const std::string name = weight->name;
      needed.sections.erase(weight);
      EXPECT_EQ(support::thrown_text([&] { StoredModel(recipe, nullptr, needed); }, ErrorKind::kStore),
                fmt::format("state {} is of another model: missing {}", id, name));
    }
}

// The last state of a run on a CPU refers to the arrays themselves; other devices are copied.
TEST_F(RunTest, LastStateNeedsNoMemory) {
  for (const char* backend : {"cpu", "tpu", "gpu"}) {
    const std::string on = fmt::format("backend={}", backend);
    const PeakMemory last = train(kSmall, {.overrides = {on}}).peak_memory;
    const PeakMemory every = train(kSmall, {.overrides = {on, "checkpoint.every=1 epochs"}}).peak_memory;
    EXPECT_GT(every.saving, 0);
    if (on == "backend=cpu") {
      EXPECT_EQ(last.saving, last.training);
      EXPECT_GT(every.saving, last.saving);
    } else {
      EXPECT_EQ(last.saving, every.saving) << on;
    }
  }
}

TEST_F(StoredModelTest, IsNotEvaluatedOnChangedData) {
  write("train.csv", kTable);
  write("eval.csv", kTable);
  ASSERT_EQ(train(recipe_).exit_code, 0);
  write("eval.csv", std::string(kTable) + "5,1,1\n");
  try {
    evaluate();
    FAIL() << "changed data were evaluated";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "data.eval differs from the data that the run was trained on: 6 samples -> 7; restore the data, or give "
              "a file: `runner eval RUN DATA`");
  }
}

}  // namespace
}  // namespace runner::train
