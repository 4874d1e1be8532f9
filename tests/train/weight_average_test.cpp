// Averages of the weights (train.ema, train.swa) against plain loops over the weights after each step.

#include <fmt/format.h>

#include "tests/support/bytes.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using Weights = std::map<std::string, std::vector<double>>;  // by parameter

struct AfterStep {
  Weights weights, average;
};

class WeightAverage : public RunFixture {
 protected:
  // The weights and their average after each of the first steps of a recipe.
  std::vector<AfterStep> steps(const std::string& recipe, int count) {
    std::vector<AfterStep> all;
    for (int step = 1; step <= count; ++step) {
      const std::string store = fmt::format("{}.db", step);
      EXPECT_EQ(train(fmt::format(fmt::runtime(recipe), step), {.store = store}).error, std::nullopt);
      all.push_back(parts_of(last_state(store)));
      std::filesystem::remove(path(store));
    }
    return all;
  }

  static AfterStep parts_of(const std::map<std::string, std::vector<std::byte>>& state) {
    AfterStep parts;
    for (const auto& [name, bytes] : state) {
      const std::vector<float> values = support::numbers_of<float>(bytes);
      const std::vector<double> numbers(values.begin(), values.end());
      const std::string_view all = name;
      constexpr std::string_view kModel = "model/", kOptimizer = "optimizer/", kAverage = "/average";
      if (all.starts_with(kModel)) parts.weights[name.substr(kModel.size())] = numbers;
      if (all.ends_with(kAverage))
        parts.average[name.substr(kOptimizer.size(), name.size() - kOptimizer.size() - kAverage.size())] = numbers;
    }
    return parts;
  }
};

void expect_near(const Weights& got, const Weights& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected)
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got.at(name)[i], values[i], 1e-6) << name << ' ' << i;
}

// a · x + b · y.
Weights combined(double a, const Weights& x, double b, const Weights& y) {
  Weights sum = x;
  for (auto& [name, values] : sum)
    for (size_t i = 0; i < values.size(); ++i) values[i] = a * values[i] + b * y.at(name)[i];
  return sum;
}

// {} is replaced by the number of steps.
std::string recipe(const std::string& device, const std::string& average) {
  return device + R"(
schema_version: 1
name: averaged
model: {{type: mlp, hidden: [8]}}
data:
  train: {{format: synthetic, samples: 50, features: [5], classes: 3}}
  batch_size: 10
optimizer: {{type: adam, lr: 0.05}}
train: {{steps: {}, )" +
         average + "}}\n";
}

constexpr const char* kDevices[] = {
    "backend: cpu", "backend: cpu\nmixed_precision: fp16",  // with loss scaling only the device counts updates
    "backend: gpu\nnum_processes: 2\nsplit_batches: true"};

TEST_F(WeightAverage, ExponentialMovingAverage) {
  for (const char* const device : kDevices) {
    SCOPED_TRACE(device);
    const std::vector<AfterStep> all = steps(recipe(device, "ema: {{decay: 0.8}}"), 4);
    Weights expected = all.front().weights;
    for (const AfterStep& step : all) {
      if (&step != &all.front()) expected = combined(0.8, expected, 0.2, step.weights);
      expect_near(step.average, expected);
    }
  }
}

TEST_F(WeightAverage, MeanOfTheWeightsAfterEveryOtherStep) {
  for (const char* const device : kDevices) {
    SCOPED_TRACE(device);
    const std::vector<AfterStep> all = steps(recipe(device, "swa: {{start: 2 steps, every: 2 steps}}"), 7);
    expect_near(all[0].average, all[0].weights);
    expect_near(all[1].average, all[1].weights);
    expect_near(all[2].average, all[1].weights);
    const Weights of_two = combined(0.5, all[1].weights, 0.5, all[3].weights);
    expect_near(all[3].average, of_two);
    expect_near(all[4].average, of_two);
    expect_near(all[5].average, combined(2.0 / 3, of_two, 1.0 / 3, all[5].weights));
    expect_near(all[6].average, all[5].average);
  }
}

// With a decay of 0, the average is the weights, and evaluations give the same bits.
TEST_F(WeightAverage, EvaluationsUseIt) {
  const auto losses = [&](const char* average, const char* store) {
    train(
        fmt::format("{}eval: {{every: 1 epoch, at_start: true}}\ntrain: {{epochs: 4{}}}\n",
                    std::string(kFourEpochs).substr(0, std::string_view(kFourEpochs).find("train: {epochs")), average),
        {.store = store});
    return points("eval/loss", store);
  };
  const auto plain = losses("", "plain.db"), newest = losses(", ema: {decay: 0}", "newest.db"),
             averaged = losses(", ema: {decay: 0.9}", "averaged.db");
  EXPECT_EQ(plain.size(), 5);
  EXPECT_EQ(newest, plain);
  EXPECT_EQ(averaged.front(), plain.front());
  for (size_t i = 1; i < plain.size(); ++i) EXPECT_GT(averaged[i].second, plain[i].second) << "follows later";
}

TEST_F(WeightAverage, OfAForkBeginsWithTheWeightsOfItsState) {
  const RunResult parent = train(kFourEpochs);
  const RunResult child = train(
      kFourEpochs, {.fork = parent.run, .overrides = {"train.epochs=5", "train.ema.decay=0.5", "optimizer.lr=0"}});
  EXPECT_EQ(child.warnings, std::vector<std::string>());
  const AfterStep end = parts_of(last_state());
  expect_near(end.average, end.weights);
}

}  // namespace
}  // namespace runner::train
