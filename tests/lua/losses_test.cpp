// Losses in Lua: bit-identical to the recipe's losses with the same options, and equal to torch's formulas in plain
// loops.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/train/step/loss.h"
#include "tests/lua/lua_step.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;

constexpr int64_t kBatch = 7, kClasses = 4;
constexpr int64_t kLabels[kBatch] = {0, 3, 1, 1, 2, 3, 0};

double logit(int64_t i) {
  return std::sin(1.7 * static_cast<double>(i)) * 3;
}

struct Classification : LuaStep {
  Value logits, labels;
  Classification() {
    logits = input("logits", HostTensor({DType::kF32, Shape{kBatch, kClasses}}, logit));
    labels = input("labels",
                   HostTensor({DType::kI64, Shape{kBatch}}, [](int64_t i) { return static_cast<double>(kLabels[i]); }));
  }
  // Computes Σ losses / Σ weights like a step of the recipe.
  HostTensor of_recipe(const train::LossSpec& spec) {
    const train::SampleLosses losses = train::sample_losses(spec, logits, labels);
    return compute(ops::div(ops::sum(losses.losses), ops::sum(losses.weights)));
  }
};

TEST(LuaLosses, CrossEntropyIsBitIdenticalToTheRecipe) {
  struct Row {
    const char* options;
    std::vector<double> weights;
    std::optional<int64_t> ignored;
    double smoothing = 0;
  };
  const Row rows[] = {
      {"{}", {}, {}},
      {"{ignore_index = 3}", {}, 3},
      {"{label_smoothing = 0.1}", {}, {}, 0.1},
      {"{weight = {0.5, 2, 0.25, 1}}", {0.5, 2, 0.25, 1}, {}},
      {"{weight = {0.5, 2, 0.25, 1}, ignore_index = 1}", {0.5, 2, 0.25, 1}, 1},
      {"{weight = nn.tensor{0.5, 2, 0.25, 1}, ignore_index = 0, label_smoothing = 0.2, reduction = 'mean'}",
       {0.5, 2, 0.25, 1},
       0,
       0.2},
  };
  std::vector<HostTensor> seen;
  for (const Row& row : rows) {
    train::LossSpec spec;
    spec.class_weights = row.weights;
    spec.ignored_label = row.ignored;
    spec.label_smoothing = row.smoothing;
    Classification step;
    const std::string call = std::string("nn.cross_entropy(logits, labels, ") + row.options + ")";
    const HostTensor loss = step.compute(call);
    EXPECT_EQ(loss, step.of_recipe(spec)) << call;
    for (const HostTensor& other : seen) EXPECT_FALSE(loss == other) << call << " ignores the option";
    seen.push_back(loss);
  }
}

// The formula of torch.nn.functional.cross_entropy.
struct CrossEntropy {
  double loss = 0, weight = 0;
};
CrossEntropy sample(int64_t row, std::span<const double> weights, int64_t ignored, double smoothing) {
  const int64_t label = kLabels[row];
  if (label == ignored) return {};
  double total = 0, smooth = 0;
  for (int64_t c = 0; c < kClasses; ++c) total += std::exp(logit(row * kClasses + c));
  const auto log_likelihood = [&](int64_t c) { return logit(row * kClasses + c) - std::log(total); };
  for (int64_t c = 0; c < kClasses; ++c) smooth -= weights[static_cast<size_t>(c)] * log_likelihood(c) / kClasses;
  const double weight = weights[static_cast<size_t>(label)];
  return {-(1 - smoothing) * weight * log_likelihood(label) + smoothing * smooth, weight};
}

TEST(LuaLosses, CrossEntropyMatchesTorch) {
  constexpr double kWeights[] = {0.5, 2, 0.25, 1};
  CrossEntropy sum;
  std::vector<double> each;
  for (int64_t row = 0; row < kBatch; ++row) {
    const CrossEntropy one = sample(row, kWeights, 0, 0.2);
    each.push_back(one.loss);
    sum.loss += one.loss;
    sum.weight += one.weight;
  }
  Classification step;
  const std::string options = "weight = {0.5, 2, 0.25, 1}, ignore_index = 0, label_smoothing = 0.2";
  const auto loss = [&](const char* reduction) {
    return step.compute("nn.cross_entropy(logits, labels, {" + options + ", reduction = '" + reduction + "'})");
  };
  EXPECT_NEAR(loss("mean")[0], sum.loss / sum.weight, 1e-6);
  EXPECT_NEAR(loss("sum")[0], sum.loss, 1e-5);
  const HostTensor none = loss("none");
  ASSERT_EQ(none.type, (backends::TensorType{DType::kF32, Shape{kBatch}}));
  for (int64_t row = 0; row < kBatch; ++row) EXPECT_NEAR(none[row], each[static_cast<size_t>(row)], 1e-6) << row;
}

// Labels 0 and 2 mixed with weight 0.3, and label 1. Figures of PyTorch; with smoothing 0.1 the probabilities of the
// first sample are 0.295, 0.025, 0.655 and 0.025.
TEST(LuaLosses, CrossEntropyOfProbabilitiesMatchesTorch) {
  struct Row {
    const char* options;
    std::vector<double> losses;
    double mean;  // over samples, also with weights
    train::LossSpec spec;
  };
  const Row rows[] = {
      {"", {0.7923495823898219, 2.956575477942117}, 1.8744625301659692, {}},
      {"label_smoothing = 0.1,", {0.909849582389822, 2.887825477942117}, 1.8988375301659697, {.label_smoothing = 0.1}},
      {"weight = {1, 2, 0.5, 3},",
       {0.6725272285533842, 5.913150955884234},
       3.292839092218809,
       {.class_weights = {1, 2, 0.5, 3}}},
      {"weight = {1, 2, 0.5, 3}, label_smoothing = 0.1,",
       {0.998406312836392, 5.586654375461404},
       3.292530344148898,
       {.class_weights = {1, 2, 0.5, 3}, .label_smoothing = 0.1}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.options);
    LuaStep step;
    const Value x =
        step.input("x", HostTensor({DType::kF32, Shape{2, 4}}, std::vector<double>{0.5, -1, 2, 0, 1, 0.25, -0.5, 3}));
    const Value p =
        step.input("p", HostTensor({DType::kF32, Shape{2, 4}}, std::vector<double>{0.3, 0, 0.7, 0, 0, 1, 0, 0}));
    const std::string call = fmt::format("nn.cross_entropy(x, p, {{{} reduction = ", row.options);
    const HostTensor losses = step.compute(call + "'none'})");
    for (int64_t i = 0; i < 2; ++i) EXPECT_NEAR(losses[i], row.losses[static_cast<size_t>(i)], 1e-6);
    EXPECT_NEAR(step.compute(call + "'mean'})")[0], row.mean, 1e-6);
    const train::SampleLosses of_recipe = train::sample_losses(row.spec, x, p);
    EXPECT_EQ(step.compute(of_recipe.losses), losses);
    EXPECT_EQ(step.compute(of_recipe.weights), (HostTensor({DType::kF32, Shape{2}}, [](int64_t) { return 1; })));
  }
  Classification step;
  step.input("p", HostTensor({DType::kF32, Shape{kBatch}}, [](int64_t) { return 0; }));
  const std::string error = step.error("nn.cross_entropy(logits, p)");
  EXPECT_NE(error.find("labels (N) i64, or probabilities of the classes"), std::string::npos) << error;
  const std::string ignored = step.error("nn.cross_entropy(logits, logits, {ignore_index = 1})");
  EXPECT_NE(ignored.find("cross_entropy: ignore_index needs labels of classes"), std::string::npos) << ignored;
}

TEST(LuaLosses, ElementwiseLossesMatchTorch) {
  struct Row {
    const char* call;
    double (*loss)(double, double);
    const char* options = "";
  };
  const Row rows[] = {
      {"nn.mse", [](double x, double y) { return (x - y) * (x - y); }},
      {"nn.l1", [](double x, double y) { return std::fabs(x - y); }},
      {"nn.huber",
       [](double x, double y) {
         const double e = std::fabs(x - y);
         return e <= 0.6 ? 0.5 * e * e : 0.6 * (e - 0.3);
       },
       ", delta = 0.6"},
      {"nn.bce_with_logits",
       [](double x, double y) {
         const double p = 1 / (1 + std::exp(-x));
         return -y * std::log(p) - (1 - y) * std::log(1 - p);
       }},
      {"nn.bce_with_logits",
       [](double x, double y) {
         const double p = 1 / (1 + std::exp(-x));
         return -3 * y * std::log(p) - (1 - y) * std::log(1 - p);
       },
       ", pos_weight = {3, 3, 3}"},
  };
  constexpr double kX[] = {-2, -0.5, 0, 0.75, 1.5, 3}, kY[] = {1, 0.25, 0.5, 0, 1, 0.9};
  for (const Row& row : rows) {
    LuaStep step;
    step.input("x", HostTensor({DType::kF32, Shape{2, 3}}, kX));
    step.input("y", HostTensor({DType::kF32, Shape{2, 3}}, kY));
    const auto loss = [&](const std::string& reduction) {
      return step.compute(std::string(row.call) + "(x, y, {reduction = '" + reduction + "'" + row.options + "})");
    };
    double sum = 0;
    const HostTensor none = loss("none");
    ASSERT_EQ(none.type, (backends::TensorType{DType::kF32, Shape{2, 3}})) << row.call;
    for (int64_t i = 0; i < 6; ++i) {
      const double wanted = row.loss(kX[i], kY[i]);
      EXPECT_NEAR(none[i], wanted, 1e-6) << row.call << " of element " << i;
      sum += wanted;
    }
    EXPECT_NEAR(loss("sum")[0], sum, 1e-5) << row.call;
    EXPECT_NEAR(loss("mean")[0], sum / 6, 1e-6) << row.call;
  }
}

// Losses of a bf16 model are f32.
TEST(LuaLosses, ComputeInF32) {
  LuaStep step({DType::kBf16});
  step.input("x", HostTensor({DType::kBf16, Shape{2}}, [](int64_t) { return 0.1; }));
  step.input("y", HostTensor({DType::kBf16, Shape{2}}, [](int64_t) { return 3; }));
  EXPECT_EQ(step.record("nn.mse(x, y)").dtype(), DType::kF32);
}

TEST(LuaLosses, RejectInvalidOptions) {
  Classification step;
  const std::pair<const char*, const char*> cases[] = {
      {"ignore_index = 0.5", "cross_entropy: ignore_index is number, expected an integer"},
      {"ignore_index = 0/0", "cross_entropy: ignore_index is number, expected an integer"},
      {"ignore_index = 1e300", "cross_entropy: ignore_index is number, expected an integer"},
      {"ignore_index = '1'", "cross_entropy: ignore_index is string, expected an integer"},
      {"label_smoothing = -0.1", "cross_entropy: expected label_smoothing in [0, 1], got -0.1"},
      {"label_smoothing = 1.5", "cross_entropy: expected label_smoothing in [0, 1], got 1.5"},
      {"label_smoothing = 0/0", "cross_entropy: expected label_smoothing in [0, 1], got NaN"},
      {"ignore_index = 1.0, label_smoothing = 1", "no error"},
  };
  for (const auto& [options, message] : cases) {
    const std::string error = step.error(std::string("nn.cross_entropy(logits, labels, {") + options + "})");
    EXPECT_EQ(error.substr(error.starts_with("step:1: ") ? 8 : 0), message) << options;
  }
}

// Figures of PyTorch: an ignored sample counts neither in the uniform part of the smoothing nor in the mean.
TEST(LuaLosses, SmoothingDoesNotReachIgnoredSamples) {
  LuaStep step;
  step.input("x", HostTensor({DType::kF32, Shape{3, 3}}, std::vector<double>{2, 0, -1, 0, 1, 0, 5, 5, -5}));
  step.input("y", HostTensor({DType::kI64, Shape{3}}, std::vector<double>{0, 1, -100}));
  EXPECT_NEAR(step.compute("nn.cross_entropy(x, y, {label_smoothing = 0.1, reduction = 'mean'})")[0], 0.4773120, 1e-6);
  EXPECT_NEAR(step.compute("nn.cross_entropy(x, y, {reduction = 'mean'})")[0], 0.3606454, 1e-6);
}

// Outputs (n, 1) and targets (n) would be broadcast to (n, n).
TEST(LuaLosses, RegressionDoesNotBroadcast) {
  LuaStep step;
  step.input("x", HostTensor({DType::kF32, Shape{3, 1}}, std::vector<double>{1, 2, 3}));
  step.input("y", HostTensor({DType::kF32, Shape{3}}, std::vector<double>{1, 2, 3}));
  for (const char* loss : {"mse", "l1", "huber", "bce_with_logits"})
    EXPECT_NE(step.error(fmt::format("nn.{}(x, y)", loss)), "no error") << loss;
}

TEST(LuaLosses, WrongRankGivesTheSameErrorWithAndWithoutSmoothing) {
  Classification step;
  const std::string plain = step.error("nn.cross_entropy(logits:sum(2), labels)");
  EXPECT_NE(plain.find("cross_entropy"), std::string::npos) << plain;
  EXPECT_EQ(step.error("nn.cross_entropy(logits:sum(2), labels, {label_smoothing = 0.1})"), plain);
}

}  // namespace
}  // namespace runner::lua
