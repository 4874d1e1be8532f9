// Numbers that a hook passes to tensor operations: a new number reuses the compiled plan, and each execution uses its
// own.
#include <fstream>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/lua/hook_file.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/temp_folder.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr const char* kTwelveBatches = R"(schema_version: 1
seed: 3
model: {type: linear}
data: {train: {format: synthetic, samples: 48, features: [6], classes: 3}, batch_size: 4}
optimizer: {type: sgd, lr: 0.125}
train: {epochs: 1}
)";
constexpr int64_t kBatches = 12;

std::string step_with(const std::string& body) {
  return R"(local nn = require "nn"
local n = -1
return {training_step = function(acc, batch)
  n = n + 1
  local logits = acc.model(batch.features)
  local loss = nn.cross_entropy(logits, batch.labels)
)" + body +
         "\nend}\n";
}

class HookNumbers : public ::testing::Test {
 protected:
  // Trains with `hook` (empty: none) and returns the parameters.
  std::vector<std::byte> train(const std::string& hook, const std::function<double(int64_t)>& factor = nullptr) {
    const std::string recipe = kTwelveBatches + std::string(hook.empty() ? "" : "hooks: hook.lua\n");
    std::ofstream(folder_.path() / "recipe.yaml") << recipe;
    std::ofstream(folder_.path() / "hook.lua") << hook;
    session_.reset();
    recipe_ = schema::read_recipe((folder_.path() / "recipe.yaml").string()).recipe;
    hooks_ = hook.empty() ? nullptr : lua::hooks_maker()(recipe_);
    session_.emplace(recipe_, hooks_.get());
    if (factor) session_->schedule.set_function([factor](int64_t step, int32_t) { return factor(step); });
    Trainer& trainer = session_->trainer;
    trainer.allocate();
    data::Loader loader(session_->data.train, session_->plan, {.epochs = 1, .prefetch = 0});
    for (int64_t i = 0; i < kBatches; ++i) trainer.stepper().run(loader, session_->rates());
    return trainer.arrays().read(trainer.layout().find(ArrayRole::kParameters, 0));
  }
  backends::PlanCacheCounters plans() const { return session_->trainer.plan_use().cache; }
  Session& session() { return *session_; }

 private:
  const support::TempFolder folder_;
  schema::Recipe recipe_;
  std::unique_ptr<Hooks> hooks_;
  std::optional<Session> session_;
};

TEST_F(HookNumbers, ShareAPlan) {
  train(step_with("return (loss * (1.5 + n / 10) + (0.3 - n) * logits:mean()) / (n + 2)"));
  EXPECT_EQ(plans().misses, 1);
  EXPECT_EQ(plans().hits, kBatches - 1);
}

TEST_F(HookNumbers, AreConstantsIfTheyAre0Or1) {
  train(step_with("return loss * (n % 4) / 2"));  // 0, 0.5, 1, 1.5
  EXPECT_EQ(plans().misses, 3);
}

TEST_F(HookNumbers, InListsShareAPlan) {
  train(
      step_with("return nn.cross_entropy(logits * nn.tensor{n, 1, 0.5 + n}, batch.labels, {weight = {1, n, n + 1}})"));
  EXPECT_EQ(plans().misses, 1);
}

TEST_F(HookNumbers, ReturnedByAStepShareAPlan) {
  train(step_with("return {loss = loss * 4, weight = 4 + n, number = n, part = n / 7}"));
  EXPECT_EQ(plans().misses, 1);
  const MetricSums metrics = session().trainer.means().take_metrics();
  EXPECT_NEAR(metrics.at("number").sum / metrics.at("number").weight, 5.5, 1e-6);  // mean of 0, 1, … 11
  EXPECT_NEAR(metrics.at("part").sum / metrics.at("part").weight, 5.5 / 7, 1e-6);
}

// A power of two commutes with every rounding between the loss and the update.
TEST_F(HookNumbers, ScalingTheLossEqualsScalingTheLearningRate) {
  const std::vector<std::byte> by_rate =
      train("", [](int64_t step) { return std::ldexp(1.0, static_cast<int>(step % 5)); });
  const std::vector<std::byte> by_loss = train(step_with("return loss * 2 ^ (n % 5)"));
  EXPECT_EQ(by_loss, by_rate);
  EXPECT_EQ(plans().misses, 2) << "one plan for 1, one for other numbers";
  EXPECT_NE(by_loss, train(""));
}

// A value read during a step uses the numbers passed so far in that step.
TEST_F(HookNumbers, WorkInValuesThatAreRead) {
  train(step_with(R"(
    local plain, scaled = loss:item(), (loss * (0.25 + n)):item()
    if math.abs(scaled - plain * (0.25 + n)) > 1e-6 * math.abs(scaled) then error(n .. ": " .. plain .. ", " .. scaled) end
    local listed = (nn.tensor{n, 2} * 3):tolist()
    if listed[1] ~= 3 * n or listed[2] ~= 6 then error("a list") end
    return loss * (0.25 + n))"));
  EXPECT_EQ(plans().misses, 1 + 3);
  EXPECT_EQ(plans().hits, 4 * (kBatches - 1));
}

TEST_F(HookNumbers, WorkInPredictions) {
  train(R"(local nn = require "nn"
local n = 0
return {evaluation_step = function(acc, batch)
  n = n + 1
  return {predictions = acc.model(batch.features) * (n + 1), number = n}
end, metrics = {none = function() return 0 end}})");
  data::Loader loader(session().data.train, session().plan, {.epochs = 1, .prefetch = 0});
  const data::Batch& batch = loader.next();
  Evaluated first, second;
  session().trainer.forward().evaluate(batch, true, first);
  session().trainer.forward().evaluate(batch, false, second);
  std::vector<float> third(first.outputs.size());
  session().trainer.forward().predict(batch, third);
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    EXPECT_FLOAT_EQ(second.outputs[i], first.outputs[i] * 3 / 2);
    EXPECT_FLOAT_EQ(third[i], first.outputs[i] * 4 / 2);
  }
  EXPECT_EQ(second.metrics.at("number").sum, 2 * second.metrics.at("number").weight);
  EXPECT_EQ(plans().misses, 1 + 2) << "training, evaluation, prediction";
}

class HookNumbersOfRuns : public RunFixture {};

TEST_F(HookNumbersOfRuns, ThatAreNotFiniteAreExplained) {
  write("hook.lua", step_with("return loss * (n >= 3 and 1e39 or 0.5 + n)"));
  const RunResult result =
      RunFixture::train(std::string(kTwelveBatches) + "hooks: hook.lua\n", {.make_hooks = lua::hooks_maker()});
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_NE(result.error->message.find("the loss of step 4 is not finite: the result of mul"), std::string::npos)
      << result.error->message;
  EXPECT_EQ(fmt::format("{}:{}", result.error->file, result.error->line), path("hook.lua").string() + ":7");
}

}  // namespace
}  // namespace runner::train
