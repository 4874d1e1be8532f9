// A child run restores what fits, bit for bit, and resets the rest with a warning.
#include <cmath>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/backends/support/on_threads.h"
#include "tests/support/bytes.h"
#include "tests/support/json.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

// Everything that has state: dropout, moments, short optimizer steps, plateau, early stopping, clipping.
constexpr const char* kParent = R"(schema_version: 1
name: parent
seed: 11
gradient_accumulation_steps: 3
model: {type: mlp, hidden: [12, 8], activation: gelu, dropout: 0.25}
data:
  train: {format: synthetic, samples: 67, features: [6], classes: 4}
  eval: {format: synthetic, samples: 20, features: [6], classes: 4}
  batch_size: 8
optimizer: {type: adamw, lr: 0.01}
scheduler: {type: plateau, patience: 0, metric: eval/loss}
train: {epochs: 5, clip_grad_norm: 0.5, early_stopping: {patience: 50}}
eval: {every: 4 steps}
checkpoint: {every: 2 steps}
log: {every: 3 steps}
)";

// A child run keeps the classes of its parent if they include all labels, so that its weights fit.
class ForkOfClasses : public RunFixture {};

TEST_F(ForkOfClasses, KeepsTheClassesOfItsParent) {
  write("table.csv", "a,label\n1,10\n2,20\n3,30\n4,20\n");
  const RunResult parent = train(kRowByRow);
  write("table.csv", "a,label\n1,30\n2,20\n3,30\n4,20\n");
  for (const std::string processes : {"1", "2"}) {
    const RunResult child =
        train(kRowByRow, {.fork = parent.run,
                          .restart = true,
                          .overrides = {"num_processes=" + processes},
                          .transport = processes == "1" ? Transport() : Transport([](int size, const auto& body) {
                            backends::testing::on_threads(size, body);
                          })});
    EXPECT_EQ(child.exit_code, 0) << processes;
  }
}

class ForkTest : public RunFixture {
 protected:
  RunResult fork(const std::vector<std::string>& overrides, const Options& more = {}) {
    Options options = more;
    options.fork = parent.run;
    options.overrides = overrides;
    return train(kParent, options);
  }

  RunResult parent;
};

TEST_F(ForkTest, WithTheSameRecipeItIsBitIdenticalToTheParent) {
  parent = train(kParent);
  ASSERT_EQ(parent.optimizer_steps, 15);
  const auto want = last_state();
  std::map<std::string, std::vector<std::pair<int64_t, double>>> curves;
  for (const char* metric : {"train/loss", "eval/loss", "train/lr", kBatchDigest}) curves[metric] = points(metric);
  ASSERT_GE(parent.states.size(), 8u);
  int64_t step = 0;
  for (const int64_t state : parent.states) {
    step += 2;
    if (state == parent.states.back()) continue;
    SCOPED_TRACE(step);
    const RunResult child = fork({}, {.state = state});
    EXPECT_EQ(child.exit_code, 0);
    EXPECT_NE(child.run, parent.run);
    EXPECT_EQ(child.warnings, parent.warnings);
    EXPECT_EQ(last_state(), want);
    for (auto [metric, curve] : curves) {
      std::erase_if(curve, [&](const auto& point) { return point.first <= step; });
      EXPECT_EQ(points(metric), curve) << metric;
    }
  }
}

TEST_F(ForkTest, AChildWithoutChangesResumes) {
  parent = train(kParent);
  const auto want = last_state();
  const RunResult part = fork({}, {.state = parent.states[2], .stop_after = 9});
  EXPECT_EQ(part.exit_code, 4);
  EXPECT_EQ(train(kParent, {.resume = part.run}).exit_code, 0);
  EXPECT_EQ(last_state(), want);
}

// The first step of Adam moves each weight by the learning rate, whatever the gradient, if and only if moments and bias
// correction start together.
TEST_F(ForkTest, AnotherOptimizerStartsAtItsFirstStep) {
  parent = train(kParent, {.overrides = {"optimizer.type=sgd", "model.dropout=0"}});
  const auto before = last_state();
  const RunResult child = fork({"optimizer.type=adam", "optimizer.lr=0.001", "train.steps=16", "model.dropout=0"}, {});
  ASSERT_EQ(child.exit_code, 0);
  EXPECT_EQ(child.optimizer_steps, 16);
  EXPECT_EQ(last_document()["updates"][""].integer(), 1);
  EXPECT_EQ(last_document()["scheduled"].integer(), 16);
  const std::vector<float> a = support::numbers_of<float>(before.at("model/0.bias")),
                           b = support::numbers_of<float>(last_state().at("model/0.bias"));
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(b[i] - a[i]));
  EXPECT_NEAR(largest, 0.001, 2e-5);
}

TEST_F(ForkTest, WarnsAboutWhatIsReset) {
  parent = train(kParent);
  EXPECT_EQ(fork({"optimizer.type=sgd", "train.epochs=6"}).warnings,
            (std::vector<std::string>{
                fmt::format("the optimizer starts from scratch: state {} was saved with another type of "
                            "optimizer",
                            parent.states.back())}));
  EXPECT_EQ(fork({"optimizer.amsgrad=true", "train.epochs=6"}, {.state = parent.states[1]}).warnings,
            (std::vector<std::string>{fmt::format(
                "the optimizer starts from scratch: state {} has no max_exp_avg_sq of 0.weight", parent.states[1])}));
  EXPECT_EQ(fork({"data.batch_size=16", "train.epochs=1"}).warnings,
            (std::vector<std::string>{"training starts with the first epoch: data.batch_size changed from 8 to 16"}));
  EXPECT_EQ(last_document()["windows"].integer(), 2);
  EXPECT_EQ(last_document()["scheduled"].integer(), 2);
  EXPECT_EQ(last_document()["updates"][""].integer(), 17);  // the moments include 15 earlier steps
  EXPECT_EQ(fork({"data.train.samples=60", "train.epochs=1"}).warnings,
            (std::vector<std::string>{"training starts with the first epoch: data.train changed: 67 samples -> 60"}));
  EXPECT_EQ(
      fork({"train.early_stopping.metric=eval/accuracy", "train.early_stopping.mode=max", "train.epochs=6"}).warnings,
      (std::vector<std::string>{
          "early stopping starts from scratch, because it monitors another metric or other data"}));
}

// In an epoch of 9 batches, the fifth optimizer step of 2 batches has one batch, or also the first of the next epoch.
TEST_F(ForkTest, OtherSamplesOfOptimizerStepsStartWithTheFirstEpoch) {
  std::string recipe = kParent;
  recipe.replace(recipe.find("steps: 3"), 8, "steps: 2");
  parent = train(recipe);
  const auto warnings = [&](const std::string& override) {
    return train(recipe, {.fork = parent.run, .state = parent.states[2], .overrides = {override, "train.steps=12"}})
        .warnings;
  };
  const std::string text = "training starts with the first epoch: ";
  EXPECT_EQ(warnings("seed=11"), (std::vector<std::string>{}));
  EXPECT_EQ(warnings("sync_with_dataloader=false"),
            (std::vector<std::string>{text + "sync_with_dataloader changed from true to false"}));
  EXPECT_EQ(warnings("data.drop_last=true"),
            (std::vector<std::string>{text + "data.drop_last changed from false to true"}));
}

TEST_F(ForkTest, FrozenWeightsKeepTheirBits) {
  parent = train(kParent);
  const auto before = last_state();
  for (const bool restart : {false, true}) {
    const RunResult child = fork({"model.freeze=[0.*]", "train.epochs=7"}, {.restart = restart});
    ASSERT_EQ(child.exit_code, 0);
    EXPECT_EQ(child.optimizer_steps, 21);
    EXPECT_EQ(child.warnings,
              restart ? std::vector<std::string>{}
                      : std::vector<std::string>{"the optimizer moments of 2 frozen parameters were dropped"});
    const auto after = last_state();
    for (const char* name : {"model/0.weight", "model/0.bias"}) EXPECT_EQ(after.at(name), before.at(name)) << name;
    for (const char* name : {"model/3.weight", "model/6.weight"}) EXPECT_NE(after.at(name), before.at(name)) << name;
    EXPECT_FALSE(after.contains("optimizer/0.weight/exp_avg"));
    EXPECT_EQ(points("train/loss").front().first, restart ? 3 : 18);
  }
}

TEST_F(ForkTest, RejectsImpossibleForks) {
  parent = train(kParent);
  const auto error = [&](const std::vector<std::string>& overrides, int64_t state = -1) {
    try {
      fork(overrides, {.state = state});
    } catch (const Error& e) {
      return fmt::format("{}: {}", exit_code(e.kind()), e.message());
    }
    return std::string("none");
  };
  const int64_t last = parent.states.back();
  EXPECT_EQ(
      error({"model.hidden=[5, 8]"}),
      fmt::format("2: state {} is of another model: expected shape (5, 6) of parameter 0.weight, got (12, 6)", last));
  EXPECT_EQ(
      error({"model.hidden=[12]"}),
      fmt::format("2: state {} is of another model: expected shape (4, 12) of parameter 3.weight, got (8, 12)", last));
  EXPECT_EQ(error({"model.bias=false"}),
            fmt::format("2: state {} is of another model: unexpected parameter 0.bias of shape (12)", last));
  EXPECT_EQ(error({}), fmt::format("2: state {} is at step 15, but the child run ends with step 15: nothing is left to "
                                   "train; increase train.epochs, or restart from its weights with --restart",
                                   last));
  EXPECT_EQ(error({}, 4711),
            fmt::format("3: run {} has no state 4711; `runner states {}` lists its states", parent.run, parent.run));
}

}  // namespace
}  // namespace runner::train
