// What traced regions do to the arrays on the device, against gradients known by hand.
#include "runner/train/engine/traced_region.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "runner/train/loop/session.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;

// With accumulation there are gradient arrays.
constexpr const char* kSegments = R"(schema_version: 1
seed: 5
gradient_accumulation_steps: 2
model: {type: linear}
data: {train: {format: synthetic, samples: 32, features: [4], classes: 3}, batch_size: 8, shuffle: false}
optimizer: {type: sgd, lr: 0.5}
train: {epochs: 1, on_nan: skip}
)";

constexpr double kRate = 0.5;
constexpr size_t kInputs = 4, kOutputs = 3, kBatch = 8;

class SegmentTest : public RunFixture {
 protected:
  SegmentTest() {
    write("recipe.yaml", kSegments);
    read_ = schema::read_recipe(path("recipe.yaml").string());
    session_.emplace(read_.recipe);
    trainer().allocate();
    loader_.emplace(session_->data.train, session_->plan,
                    data::LoaderSpec{.shuffle = false, .seed = session_->data_seed(), .prefetch = 0});
    batch_ = &loader_->next();
  }

  Trainer& trainer() { return session_->trainer; }

  Segment segment(bool voided = false) {
    return Segment(trainer().builder(),
                   {.batch = kBatch, .gradients = trainer().arrays().gradients(), .voided = voided});
  }
  // The mean of all outputs. Its derivative by weight (o, i) is the mean of feature i divided by the number of outputs.
  Value mean_output(Segment& segment) {
    const StepInputs& inputs = segment.inputs();
    return ops::mean(inputs.model->forward(inputs.forward, inputs.features), std::vector<int64_t>{0, 1});
  }
  static void backward(Segment& segment, Value loss) { segment.backward(loss, 1, kBatch, kBatch); }
  void step(Segment& segment) {
    segment.reduce();
    segment.step(
        0, [](int64_t) { return WindowRates{}; }, 1);
  }
  void run(Segment& segment) { run(segment, batch_); }
  void run(Segment& segment, const data::Batch* batch) {
    segment.finish();
    trainer().arrays().set_gradients(segment.gradients());
    if (segment.does_something()) trainer().segments().run("segment", segment, batch);
  }

  std::vector<float> weights() {
    const auto contents = trainer().arrays().read(trainer().layout().find(Role::kParameters));
    std::vector<float> values(kInputs * kOutputs);
    std::memcpy(values.data(), contents.data(), values.size() * sizeof(float));
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

TEST_F(SegmentTest, StepsWithAccumulatedGradients) {
  const std::vector<float> before = weights();
  Segment whole = segment();
  backward(whole, mean_output(whole));
  backward(whole, ops::mul(mean_output(whole), 2.0));
  step(whole);
  run(whole);
  expect_moved(before, 3);
}

TEST_F(SegmentTest, GradientsSurviveMarkStep) {
  const std::vector<float> before = weights();
  for (int i = 0; i < 2; ++i) {
    Segment adding = segment();
    backward(adding, mean_output(adding));
    run(adding);
    EXPECT_EQ(trainer().arrays().gradients(), std::vector{Held::kShare});
    EXPECT_EQ(weights(), before);
  }
  Segment idle = segment();
  run(idle);
  EXPECT_FALSE(idle.does_something());
  Segment stepping(trainer().builder(), {.batch = std::nullopt, .gradients = trainer().arrays().gradients()});
  step(stepping);
  stepping.zero_grad(0);
  run(stepping, nullptr);
  expect_moved(before, 2);
  EXPECT_EQ(trainer().arrays().gradients(), std::vector{Held::kNothing});
  Segment after = segment();
  EXPECT_THROW(step(after), Error);
}

TEST_F(SegmentTest, ReadsUpdatedParameters) {
  Segment both = segment();
  const Value before = mean_output(both);
  backward(both, before);
  step(both);
  const Value after = mean_output(both);
  const std::vector<double> values = {trainer().segments().read_value(both, before.id, batch_)[0],
                                      trainer().segments().read_value(both, after.id, batch_)[0]};
  EXPECT_LT(values[1], values[0] - 1e-3);  // in the direction of the negative gradient
  EXPECT_THROW(backward(both, before), Error) << "its parameters are gone";
}

TEST_F(SegmentTest, ANotFiniteLossCancelsLaterSteps) {
  const std::vector<float> before = weights();
  Segment part = segment();
  backward(part, mean_output(part));
  step(part);
  backward(part, ops::div(mean_output(part), 0.0));
  step(part);
  run(part);
  ASSERT_EQ(part.steps().size(), 2u);
  EXPECT_EQ(trainer().segments().read_output(part, part.steps()[0].output), 1);
  EXPECT_EQ(trainer().segments().read_output(part, part.steps()[1].output), 0);
  EXPECT_EQ(trainer().segments().read_output(part, part.finite_output()), 0);
  EXPECT_EQ(trainer().segments().read_output(part, part.own_finite_output()), 0);
  expect_moved(before, 1);
  EXPECT_TRUE(std::isfinite(trainer().means().take_loss()));
}

TEST_F(SegmentTest, ANotFiniteLossCancelsLaterRegions) {
  const std::vector<float> before = weights();
  Segment voided = segment(/*voided=*/true);
  backward(voided, mean_output(voided));
  step(voided);
  run(voided);
  EXPECT_EQ(trainer().segments().read_output(voided, voided.steps()[0].output), 0);
  EXPECT_EQ(weights(), before);
  EXPECT_TRUE(std::isnan(trainer().means().take_loss())) << "nothing counted";
  Segment idle = segment(/*voided=*/true);
  idle.zero_grad(0);
  run(idle);
  EXPECT_FALSE(idle.does_something());
}

TEST_F(SegmentTest, ClipsTheGradientsOfAStep) {
  const std::vector<float> before = weights();
  Segment clipped = segment();
  backward(clipped, ops::mul(mean_output(clipped), 100.0));
  const Value norm = clipped.clip_grad_norm(0, 0.01);
  const double was = trainer().segments().read_value(clipped, norm.id, batch_)[0];
  step(clipped);
  run(clipped);
  EXPECT_GT(was, 1);
  expect_moved(before, 100 * 0.01 / (was + 1e-6));
}

}  // namespace
}  // namespace runner::train
