// Results of steps as converted for the trainer: sums and weights computed by hand, for a batch of three samples whose
// last one is padding.
#include "runner/lua/step_result.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lua.hpp>

#include "schema/base/error.h"
#include "tests/lua/lua_step.h"

namespace runner::lua {
namespace {

using backends::DType;
using backends::Shape;
using Values = std::vector<double>;

class StepResult : public ::testing::Test {
 protected:
  StepResult() {
    input("mask", DType::kF32, {3}, {1, 1, 0});
    input("each", DType::kF32, {3}, {2, 4, 100});
    input("both", DType::kF32, {3, 2}, {1, 2, 3, 4, 50, 60});
    input("weight", DType::kF32, {3}, {0.5, 1.5, 9});
    input("weights", DType::kF32, {3, 2}, {1, 0, 1, 1, 9, 9});
    input("mean", DType::kF32, {}, {5});
    input("half", DType::kBf16, {3}, {2, 4, 100});
    input("labels", DType::kI64, {3}, {0, 1, 1});
  }

  void input(const std::string& name, DType dtype, const Shape& shape, const Values& values) {
    values_[name] = step_.input(name, HostTensor({dtype, shape}, std::span<const double>(values)));
  }
  train::StepInputs inputs() {
    return {.forward = forward_,
            .model = model_,
            .features = values_.at("both"),
            .labels = values_.at("labels"),
            .mask = values_.at("mask"),
            .sample_ids = values_.at("labels"),
            .read = {},
            .outputs = Shape{3, 2}};
  }
  train::StepLosses losses(const std::string& code) {
    step_.run(code);
    train::StepLosses taken = take_losses(step_.runtime().state(), inputs());
    EXPECT_EQ(lua_gettop(step_.runtime().state()), 0);
    return taken;
  }
  train::StepPredictions predictions(const std::string& code) {
    step_.run(code);
    train::StepPredictions taken = take_predictions(step_.runtime().state(), inputs());
    EXPECT_EQ(lua_gettop(step_.runtime().state()), 0);
    return taken;
  }
  Values of(Value value) { return step_.compute(value).values(); }

  template <class Take>
  std::string refused(const Take& take) {
    try {
      take();
    } catch (const Error& error) {
      lua_settop(step_.runtime().state(), 0);
      return error.message();
    }
    return "taken";
  }
  std::string loss_error(const std::string& code) {
    return refused([&] { losses(code); });
  }
  std::string prediction_error(const std::string& code) {
    return refused([&] { predictions(code); });
  }

  LuaStep step_;
  nn::ForwardContext forward_{.program = step_.program()};
  nn::ModulePtr model_;
  std::map<std::string, Value> values_;
};

TEST_F(StepResult, LossPerSampleHasWeightOne) {
  const train::StepLosses taken = losses("each");
  EXPECT_EQ(of(taken.losses), (Values{2, 4, 100}));  // masked by the trainer
  EXPECT_EQ(of(taken.weights), (Values{1, 1, 1}));
  EXPECT_TRUE(taken.metrics.empty());
}

TEST_F(StepResult, LossPerElementIsWeightedByTheNumberOfElements) {
  const train::StepLosses taken = losses("{loss = both}");
  EXPECT_EQ(of(taken.losses), (Values{3, 7, 110}));
  EXPECT_EQ(of(taken.weights), (Values{2, 2, 2}));
}

TEST_F(StepResult, ScalarLossIsTheMeanOverSamplesWithoutPadding) {
  const train::StepLosses taken = losses("mean");
  EXPECT_EQ(of(taken.losses), Values{10});
  EXPECT_EQ(of(taken.weights), Values{2});
}

TEST_F(StepResult, LossAndWeightAreSums) {
  train::StepLosses taken = losses("{loss = each, weight = weight}");
  EXPECT_EQ(of(taken.losses), (Values{2, 4, 100}));
  EXPECT_EQ(of(taken.weights), (Values{0.5, 1.5, 9}));
  taken = losses("{loss = both, weight = weights}");
  EXPECT_EQ(of(taken.losses), (Values{3, 7, 110}));
  EXPECT_EQ(of(taken.weights), (Values{1, 2, 18}));
  taken = losses("{loss = mean, weight = 4}");
  EXPECT_EQ(of(taken.losses), Values{5});
  EXPECT_EQ(of(taken.weights), Values{4});
  taken = losses("{loss = mean, weight = weights}");  // without padding
  EXPECT_EQ(of(taken.losses), Values{5});
  EXPECT_EQ(of(taken.weights), Values{3});
}

TEST_F(StepResult, LossesAreConvertedToF32) {
  const train::StepLosses taken = losses("{loss = half, weight = half}");
  EXPECT_EQ(taken.losses.dtype(), DType::kF32);
  EXPECT_EQ(taken.weights.dtype(), DType::kF32);
}

TEST_F(StepResult, MetricsAreMeansOverSamplesWithoutPadding) {
  const train::StepLosses taken = losses("{loss = mean, zero = 7, a = each, hit = labels:eq(0), m = mean}");
  ASSERT_EQ(taken.metrics.size(), 4u);
  const std::vector<std::pair<std::string, double>> expected{{"a", 3}, {"hit", 0.5}, {"m", 5}, {"zero", 7}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(taken.metrics[i].name, expected[i].first);
    EXPECT_EQ(of(taken.metrics[i].sum)[0] / of(taken.metrics[i].weight)[0], expected[i].second) << expected[i].first;
    EXPECT_EQ(of(taken.metrics[i].weight), Values{2});
    EXPECT_EQ(taken.metrics[i].sum.dtype(), DType::kF64);
  }
}

TEST_F(StepResult, RejectsInvalidLosses) {
  EXPECT_EQ(loss_error("3"), "training_step returned number, expected a loss: a tensor, or a table with `loss`");
  EXPECT_EQ(loss_error("{}"), "training_step returned a table without `loss`");
  EXPECT_EQ(loss_error("labels"), "the loss is (3) i64, expected a tensor of floats");
  EXPECT_EQ(loss_error("both:t()"),
            "the loss is (2, 3) f32, but the batch has 3 samples: expected one loss per sample, or a scalar");
  EXPECT_EQ(loss_error("{loss = both, weight = weight}"),
            "the weight is (3) f32, expected the shape of the loss (3, 2) f32");
  EXPECT_EQ(loss_error("{loss = mean, x = both}"),
            "the metric x is (3, 2) f32, expected a scalar or (3), one value per sample");
  EXPECT_EQ(loss_error("{mean, loss = mean}"),
            "the result of a step: the name of a metric is a number, expected a string: {name = value}");
}

TEST_F(StepResult, RejectsMisspelledEntries) {
  for (const char* name : {"weights", "wieght", "eight", "weigt", "weightt"})
    EXPECT_EQ(loss_error(std::string("{loss = mean, ") + name + " = mean}"),
              std::string("a step returned '") + name + "', which would be a metric; did you mean weight?");
  EXPECT_EQ(prediction_error("{predictions = both, target = labels}"),
            "a step returned 'target', which would be a metric; did you mean targets?");
  for (const char* name : {"height", "weight_2", "losses", "lose", "weighted", "margin"})
    EXPECT_EQ(loss_error(std::string("{loss = mean, ") + name + " = mean}"), "taken") << name;
}

TEST_F(StepResult, PredictionsWithAndWithoutLoss) {
  train::StepPredictions taken = predictions("both");
  EXPECT_EQ(of(taken.predictions), (Values{1, 2, 3, 4, 50, 60}));
  EXPECT_FALSE(taken.targets || taken.losses || taken.weights);
  taken =
      predictions("{predictions = both:cast('bf16'), targets = 1 - labels, loss = each, weight = weight, m = each}");
  EXPECT_EQ(taken.predictions.dtype(), DType::kF32);
  EXPECT_EQ(of(taken.targets), (Values{1, 0, 0}));
  EXPECT_EQ(of(taken.losses), (Values{2, 4, 100}));
  EXPECT_EQ(of(taken.weights), (Values{0.5, 1.5, 9}));
  ASSERT_EQ(taken.metrics.size(), 1u);
  EXPECT_EQ(of(taken.metrics[0].sum), Values{6});
}

TEST_F(StepResult, RejectsInvalidPredictions) {
  EXPECT_EQ(prediction_error("nil"),
            "evaluation_step returned nil, expected predictions: a tensor, or a table with `predictions`");
  EXPECT_EQ(prediction_error("{loss = mean}"), "evaluation_step returned a table without `predictions`");
  EXPECT_EQ(prediction_error("{predictions = both, targets = each}"),
            "targets is (3) f32, expected (3) i64 like the labels");
}

TEST_F(StepResult, BySampleSumsAllAxesButTheFirst) {
  EXPECT_EQ(of(by_sample(values_.at("each"))), (Values{2, 4, 100}));
  EXPECT_EQ(of(by_sample(values_.at("both"))), (Values{3, 7, 110}));
  EXPECT_EQ(of(by_sample(step_.record("both:reshape(3, 2, 1)"))), (Values{3, 7, 110}));
  EXPECT_EQ(of(by_sample(values_.at("mean"))), Values{5});
}

// A result of another shape would be read as (3, 2).
TEST_F(StepResult, PredictionsMustHaveTheShapeOfTheData) {
  const auto refusal = [&](const std::string& code) { return refused([&] { predictions(code); }); };
  EXPECT_EQ(refusal("each"), "evaluation_step returned predictions (3) f32, expected (3, 2) f32: 2 outputs per sample");
  EXPECT_EQ(refusal("{predictions = both:slice(2, 1, 1), loss = each}"),
            "evaluation_step returned predictions (3, 1) f32, expected (3, 2) f32: 2 outputs per sample");
  EXPECT_EQ(refusal("{predictions = both, loss = each}"), "taken");
}

}  // namespace
}  // namespace runner::lua
