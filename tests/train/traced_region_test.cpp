// What traced regions do to the arrays on the device, against gradients known by hand.
#include "runner/train/step/traced_region.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "runner/train/loop/session.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/support/allocations.h"
#include "tests/train/array_values.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;

// With accumulation there are gradient arrays.
constexpr const char* kRegions = R"(schema_version: 1
seed: 5
gradient_accumulation_steps: 2
model: {type: linear}
data: {train: {format: synthetic, samples: 32, features: [4], classes: 3}, batch_size: 8, shuffle: false}
optimizer: {type: sgd, lr: 0.5}
train: {epochs: 1, on_nan: skip}
)";

constexpr double kRate = 0.5;
constexpr size_t kInputs = 4, kOutputs = 3, kBatch = 8;

class TracedRegionTest : public RunFixture {
 protected:
  TracedRegionTest() {
    write("recipe.yaml", kRegions);
    read_ = schema::read_recipe(path("recipe.yaml").string());
    session_.emplace(read_.recipe);
    trainer().allocate();
    loader_.emplace(session_->data.train, session_->plan,
                    data::LoaderSpec{.shuffle = false, .seed = session_->data_seed(), .prefetch = 0});
    batch_ = &loader_->next();
  }

  Trainer& trainer() { return session_->trainer; }

  TracedRegion region(bool voided = false) {
    return TracedRegion(trainer().builder(),
                        {.batch = kBatch, .gradients = trainer().arrays().gradients(), .voided = voided});
  }
  // The mean of all outputs. Its derivative by weight (o, i) is the mean of feature i divided by the number of outputs.
  Value mean_output(TracedRegion& region) {
    const StepInputs& inputs = region.inputs();
    return ops::mean(inputs.model->forward(inputs.forward, inputs.features), std::vector<int64_t>{0, 1});
  }
  static void backward(TracedRegion& region, Value loss) { region.backward(loss, 1, kBatch, kBatch); }
  void step(TracedRegion& region) {
    region.reduce();
    region.step(
        0, [](int64_t) { return ScheduleRates{}; }, 1);
  }
  void run(TracedRegion& region) { run(region, batch_); }
  void run(TracedRegion& region, const data::Batch* batch) {
    region.finish();
    trainer().arrays().set_gradients(region.gradients());
    if (region.does_something()) trainer().regions().run("traced region", region, batch);
  }

  std::vector<float> weights() {
    std::vector<float> values = array_of<float>(trainer(), ArrayRole::kParameters);
    values.resize(kInputs * kOutputs);
    return values;
  }
  // Expects `before` to have moved by `times` such gradients.
  void expect_moved(const std::vector<float>& before, double times) {
    const std::vector<float> now = weights();
    for (size_t at = 0; at < before.size(); ++at) {
      double mean = 0;
      for (size_t b = 0; b < kBatch; ++b) mean += static_cast<double>(batch_->features()[b * kInputs + at % kInputs]);
      const double gradient = mean / kBatch / kOutputs;
      EXPECT_NEAR(static_cast<double>(now[at]), static_cast<double>(before[at]) - times * kRate * gradient, 1e-6) << at;
    }
  }

  schema::ReadResult read_;
  std::optional<Session> session_;
  std::optional<data::Loader> loader_;
  const data::Batch* batch_ = nullptr;
};

TEST_F(TracedRegionTest, StepsWithAccumulatedGradients) {
  const std::vector<float> before = weights();
  TracedRegion whole = region();
  backward(whole, mean_output(whole));
  backward(whole, ops::mul(mean_output(whole), 2.0));
  step(whole);
  run(whole);
  expect_moved(before, 3);
}

// Each step of a hook's loop records regions.
TEST_F(TracedRegionTest, FindsTheBuffersOfAnOptimizerWithoutAllocating) {
  TracedRegion once = region();
  backward(once, mean_output(once));
  const int64_t before = support::allocations_of_this_thread();
  once.zero_grad(0);
  EXPECT_EQ(support::allocations_of_this_thread(), before);
}

TEST_F(TracedRegionTest, GradientsSurviveMarkStep) {
  const std::vector<float> before = weights();
  for (int i = 0; i < 2; ++i) {
    TracedRegion adding = region();
    backward(adding, mean_output(adding));
    run(adding);
    EXPECT_EQ(trainer().arrays().gradients(), std::vector{GradientState::kLocalSum});
    EXPECT_EQ(weights(), before);
  }
  TracedRegion idle = region();
  run(idle);
  EXPECT_FALSE(idle.does_something());
  TracedRegion stepping(trainer().builder(), {.batch = std::nullopt, .gradients = trainer().arrays().gradients()});
  step(stepping);
  stepping.zero_grad(0);
  run(stepping, nullptr);
  expect_moved(before, 2);
  EXPECT_EQ(trainer().arrays().gradients(), std::vector{GradientState::kNothing});
  TracedRegion after = region();
  EXPECT_THROW(step(after), Error);
}

TEST_F(TracedRegionTest, ReadsUpdatedParameters) {
  TracedRegion both = region();
  const Value before = mean_output(both);
  backward(both, before);
  step(both);
  const Value after = mean_output(both);
  const std::vector<double> values = {trainer().regions().read_value(both, before.id, batch_)[0],
                                      trainer().regions().read_value(both, after.id, batch_)[0]};
  EXPECT_LT(values[1], values[0] - 1e-3);  // in the direction of the negative gradient
  EXPECT_THROW(backward(both, before), Error) << "the parameters were updated in place";
}

TEST_F(TracedRegionTest, ANotFiniteLossCancelsLaterSteps) {
  const std::vector<float> before = weights();
  TracedRegion part = region();
  backward(part, mean_output(part));
  step(part);
  backward(part, ops::div(mean_output(part), 0.0));
  step(part);
  run(part);
  ASSERT_EQ(part.steps().size(), 2u);
  EXPECT_EQ(trainer().regions().read_output(part, part.steps()[0].output), 1);
  EXPECT_EQ(trainer().regions().read_output(part, part.steps()[1].output), 0);
  EXPECT_EQ(trainer().regions().read_output(part, part.finite_output()), 0);
  EXPECT_EQ(trainer().regions().read_output(part, part.own_finite_output()), 0);
  expect_moved(before, 1);
  EXPECT_TRUE(std::isfinite(trainer().means().take_loss()));
}

TEST_F(TracedRegionTest, ANotFiniteLossCancelsLaterRegions) {
  const std::vector<float> before = weights();
  TracedRegion voided = region(/*voided=*/true);
  backward(voided, mean_output(voided));
  step(voided);
  run(voided);
  EXPECT_EQ(trainer().regions().read_output(voided, voided.steps()[0].output), 0);
  EXPECT_EQ(weights(), before);
  EXPECT_TRUE(std::isnan(trainer().means().take_loss())) << "no loss was counted";
  TracedRegion idle = region(/*voided=*/true);
  idle.zero_grad(0);
  run(idle);
  EXPECT_FALSE(idle.does_something());
}

TEST_F(TracedRegionTest, ClipsTheGradientsOfAStep) {
  const std::vector<float> before = weights();
  TracedRegion clipped = region();
  backward(clipped, ops::mul(mean_output(clipped), 100.0));
  const Value norm = clipped.clip_grad_norm(0, 0.01);
  const double was = trainer().regions().read_value(clipped, norm.id, batch_)[0];
  step(clipped);
  run(clipped);
  EXPECT_GT(was, 1);
  expect_moved(before, 100 * 0.01 / (was + 1e-6));
}

}  // namespace
}  // namespace runner::train
