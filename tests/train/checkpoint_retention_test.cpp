// Which checkpoints a run keeps, and what happens if one cannot be used.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "store/sqlite.h"
#include "store/state_store.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

class StatesTest : public RunFixture {
 protected:
  // Of the last run, newest first.
  std::vector<store::StateInfo> states() const {
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    return store::list_states(store, store::find_run(store, "@last").id, true);
  }
  // Overwrites the section `run` of a checkpoint, which no other checkpoint shares, with zeros.
  void damage(int64_t state) const {
    store::Store store = store::Store::open(path("runner.db"), store::Access::kWrite);
    store.database().exec(fmt::format(
        "UPDATE content SET data = zeroblob(length(data)) WHERE id = (SELECT content_id FROM section_content WHERE "
        "state_id = {} AND section_no = 0)",
        state));
  }
};

const std::string kOverfits = R"(schema_version: 1
model: {type: mlp, hidden: [32]}
data:
  train: {format: synthetic, samples: 40, features: [6], classes: 3}
  eval: {format: synthetic, samples: 30, features: [6], classes: 3}
  batch_size: 10
optimizer: {type: adam, lr: 0.05}
train: {steps: 60}
log: {every: 1 step}
)";

TEST_F(StatesTest, KeepEveryAppliesAfterAResume) {
  std::atomic<int> stop{0};
  const std::vector<std::string> overrides{"checkpoint={every: 4 steps, keep_last: 1, keep_every: 3}"};
  const RunResult first = train(kOverfits, {.overrides = overrides, .stop_after = 30, .stop = &stop});
  ASSERT_EQ(first.exit_code, 4);
  ASSERT_EQ(train(kOverfits, {.resume = first.run, .overrides = overrides}).exit_code, 0);
  std::vector<std::pair<int64_t, bool>> kept;
  for (const store::StateInfo& state : states()) kept.emplace_back(state.step, state.pinned);
  const std::vector<std::pair<int64_t, bool>> expected{{60, true}, {48, true}, {36, true}, {24, true}, {12, true}};
  EXPECT_EQ(kept, expected);
}

TEST_F(StatesTest, KeepsTheCheckpointWithTheBestMetric) {
  ASSERT_EQ(
      train(kOverfits, {.overrides = {"eval={every: 10 steps}",
                                      "checkpoint={every: 3 steps, keep_last: 1, keep_best: {metric: eval/loss}}"}})
          .exit_code,
      0);
  const auto losses = points("eval/loss");
  const auto best =
      *std::min_element(losses.begin(), losses.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  ASSERT_LT(best.first, 60) << "the recipe does not overfit";
  const auto kept = states();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].step, 60);
  EXPECT_EQ(kept[1].step, best.first);
  EXPECT_EQ(kept[1].reason, "best");
}

TEST_F(StatesTest, KeepsSeveralBestOfAMaximisedMetric) {
  ASSERT_EQ(train(kOverfits, {.overrides = {"eval={every: 5 steps}",
                                            "checkpoint={every: 60 steps, keep_last: 1, "
                                            "keep_best: {metric: eval/accuracy, mode: max, count: 2}}"}})
                .exit_code,
            0);
  std::vector<double> accuracies;
  for (const auto& [step, value] : points("eval/accuracy")) accuracies.push_back(value);
  std::sort(accuracies.rbegin(), accuracies.rend());
  std::vector<double> kept;
  for (const store::StateInfo& state : states())
    for (const auto& [name, value] : state.metrics)
      if (name == "eval/accuracy" && state.reason == "best") kept.push_back(value);
  std::sort(kept.rbegin(), kept.rend());
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept[0], accuracies[0]);
}

TEST_F(StatesTest, ACheckpointHasOnlyMetricsOfItsStep) {
  ASSERT_EQ(train(kOverfits, {.overrides = {"eval={every: 10 steps}", "checkpoint={every: 4 steps}"}}).exit_code, 0);
  for (const store::StateInfo& state : states())
    for (const auto& [name, value] : state.metrics) {
      const auto recorded = points(name);
      EXPECT_NE(std::find(recorded.begin(), recorded.end(), std::pair(state.step, value)), recorded.end())
          << name << " at step " << state.step;
    }
}

TEST_F(StatesTest, AResumedRunKnowsEarlierBestMetrics) {
  const std::vector<std::string> overrides = {"eval={every: 1 step}", "optimizer.lr=0",
                                              "checkpoint={keep_last: 1, keep_best: {metric: eval/loss}}"};
  ASSERT_EQ(train(kOverfits, {.overrides = overrides, .stop_after = 3}).exit_code, 4);
  ASSERT_EQ(train(kOverfits, {.resume = "@last", .overrides = overrides}).exit_code, 0);
  std::vector<std::string> reasons;
  for (const store::StateInfo& state : states()) reasons.push_back(state.reason);
  // Nothing was ever better than step 1.
  EXPECT_EQ(reasons, (std::vector<std::string>{"end", "best"}));
}

// The loss of the first step is finite but its gradient is not, so the step makes the weight infinite.
const std::string kOverflows = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: table.csv}, batch_size: 2, shuffle: false}
optimizer: {type: sgd, lr: 1}
train: {epochs: 8, loss: l1}
checkpoint: {every: 1 step, keep_last: 1}
log: {every: 1 step}
)";

TEST_F(StatesTest, AModelThatIsNotFiniteIsNeverSaved) {
  write("table.csv", "a,label\n1,0.5\n1,0.25\n3e38,0.5\n3e38,0.25\n");
  const RunResult result = train(kOverflows);
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_TRUE(result.error);
  for (const auto& [name, bytes] : last_state()) {
    if (!name.starts_with("model/")) continue;
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) EXPECT_TRUE(std::isfinite(values[i])) << name;
  }
}

TEST_F(StatesTest, ReportsTheMicroBatchThatWasNotFinite) {
  write("table.csv", "a,label\n1e30,0.5\n1,0.25\n1,0.5\n1,0.25\n");
  const RunResult result = train(kRowByRow, {.overrides = {"gradient_accumulation_steps=2"}});
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->message,
            "the loss of step 1 is not finite: the result of mul (1, 1) f32 in the forward pass is inf; set "
            "train.on_nan: skip to skip such steps");
  EXPECT_EQ(result.samples, 0);
  EXPECT_EQ(result.optimizer_steps, 0);
}

TEST_F(StatesTest, ReportsASumOfFiniteLossesThatOverflows) {
  write("table.csv", "a,label\n0,3e38\n0,2e38\n");
  const RunResult result = train(kRowByRow, {.overrides = {"data.batch_size=2", "train.loss=l1"}});
  ASSERT_TRUE(result.error);
  EXPECT_NE(result.error->message.find("the sum of the losses is inf"), std::string::npos) << result.error->message;
}

TEST_F(StatesTest, FallsBackToThePreviousCheckpointIfTheNewestIsDamaged) {
  ASSERT_EQ(train(kOverfits, {.overrides = {"checkpoint={every: 20 steps}"}, .stop_after = 50}).exit_code, 4);
  const auto before = states();
  ASSERT_EQ(before[0].step, 50);
  damage(before[0].id);
  const RunResult result = train(kOverfits, {.resume = "@last", .overrides = {"checkpoint={every: 20 steps}"}});
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_FALSE(result.warnings.empty());
  EXPECT_TRUE(result.warnings[0].ends_with("; trying the previous state")) << result.warnings[0];
}

TEST_F(StatesTest, ReportsTheNewestIfAllCheckpointsAreDamaged) {
  ASSERT_EQ(train(kOverfits, {.overrides = {"checkpoint={every: 20 steps}"}, .stop_after = 50}).exit_code, 4);
  for (const store::StateInfo& state : states()) damage(state.id);
  try {
    train(kOverfits, {.resume = "@last"});
    FAIL() << "a run was resumed without an intact checkpoint";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kStore);
    EXPECT_NE(error.message().find("state " + std::to_string(states()[0].id)), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace runner::train
