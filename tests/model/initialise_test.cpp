// Initial values follow PyTorch's distributions (tests/golden/init.json): compares moments and distribution functions.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "runner/model/convolution.h"
#include "tests/golden/golden.h"

namespace runner::nn {
namespace {

using testing::Golden;

constexpr size_t kDraws = 200'000;

// weight: (out, in / groups, kernel…), or (in, out / groups, kernel…) of a transposed convolution.
ModulePtr convolution(const Golden& item, bool is_transposed) {
  const std::vector<int64_t> weight = item["parameters"]["weight"]["shape"].integers();
  const int64_t groups = item["groups"].integer();
  ConvOptions options{.in = weight[1] * groups, .out = weight[0], .kernel = {}, .groups = groups};
  options.kernel.assign(weight.begin() + 2, weight.end());
  if (!is_transposed) return conv(options);
  std::swap(options.in, options.out);
  return conv_transpose(options);
}

ModulePtr make(const Golden& item) {
  const std::string module = item["module"].text();
  const std::vector<int64_t> weight = item["parameters"]["weight"]["shape"].integers();
  if (module == "linear") return linear(weight[1], weight[0]);
  if (module == "embedding") return embedding(weight[0], weight[1]);
  if (module.starts_with("Conv")) return convolution(item, module.starts_with("ConvTranspose"));
  return layer_norm(weight[0]);
}

// Returns at least kDraws values, from as many seeds as needed.
std::vector<double> draw(const Parameter& parameter) {
  std::vector<double> all;
  std::vector<float> values(static_cast<size_t>(parameter.elements()));
  for (uint64_t seed = 0; all.size() < kDraws; ++seed) {
    initialise(parameter, seed, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Kolmogorov-Smirnov statistic: the largest distance between the empirical distribution function and that of `row`.
double distance(std::vector<double> values, const Golden& row) {
  const auto share_below = [&](double x) {
    if (row["kind"].text() == "normal") return 0.5 * std::erfc(-x / std::sqrt(2.0));
    return std::clamp((x - row["low"].number()) / (row["high"].number() - row["low"].number()), 0.0, 1.0);
  };
  std::sort(values.begin(), values.end());
  double largest = 0;
  const auto count = static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = share_below(values[i]);
    largest =
        std::max({largest, expected - static_cast<double>(i) / count, static_cast<double>(i + 1) / count - expected});
  }
  return largest;
}

void check(const std::vector<double>& drawn, const Golden& row) {
  const double mean = row["mean"].number(), deviation = row["std"].number();
  double sum = 0, squares = 0;
  for (const double value : drawn) sum += value;
  const auto count = static_cast<double>(drawn.size());
  for (const double value : drawn) squares += (value - sum / count) * (value - sum / count);
  const double error = 5 / std::sqrt(count);  // five standard errors
  EXPECT_NEAR(sum / count, mean, error * deviation);
  EXPECT_NEAR(std::sqrt(squares / count), deviation, error * deviation);
  if (row["kind"].text() == "constant") return;
  EXPECT_LT(distance(drawn, row), 2 / std::sqrt(count));  // exceeded with probability 0.0007
  if (row["kind"].text() != "uniform") return;
  const auto [least, most] = std::minmax_element(drawn.begin(), drawn.end());
  EXPECT_GE(*least, static_cast<double>(static_cast<float>(row["low"].number())));
  EXPECT_LE(*most, static_cast<double>(static_cast<float>(row["high"].number())));
}

TEST(Initialise, MatchesPyTorchsDistributions) {
  for (const Golden& item : Golden::load("init.json").cases()) {
    ParameterSet set;
    const ModulePtr module = make(item);
    module->declare(set, "");
    ASSERT_EQ(set.parameters().size(), item["parameters"].keys().size()) << item.name();
    for (const Parameter& parameter : set.parameters()) {
      SCOPED_TRACE(item.name() + " " + parameter.name);
      const Golden row = item["parameters"][parameter.name];
      EXPECT_EQ(parameter.shape, backends::Shape(row["shape"].integers()));
      check(draw(parameter), row);
    }
  }
}

std::vector<float> initial(const std::string& name, uint64_t seed, int64_t elements, int64_t begin = 0) {
  const Parameter parameter{
      .name = name, .shape = backends::Shape{elements}, .init = {Initialiser::Kind::kUniform, 1.0}};
  std::vector<float> values(static_cast<size_t>(elements));
  initialise(parameter, seed, values, begin);
  return values;
}

TEST(Initialise, DependsOnSeedAndName) {
  const std::vector<float> values = initial("0.weight", 1, 100);
  EXPECT_EQ(initial("0.weight", 1, 100), values);
  const std::vector<float> longer = initial("0.weight", 1, 200);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), longer.begin()));
  EXPECT_EQ(initial("0.weight", 1, 63, 37), std::vector(values.begin() + 37, values.end()));
  EXPECT_NE(initial("0.bias", 1, 100), values);
  EXPECT_NE(initial("0.weight", 2, 100), values);
  EXPECT_NE(initial("0.weight", (uint64_t{1} << 32) + 1, 100), values);
}

TEST(Initialise, NamesAndSeedsAreUncorrelated) {
  constexpr int64_t kCount = 20'000;
  const std::vector<float> values = initial("0.weight", 1, kCount);
  for (const auto& other :
       {initial("2.weight", 1, kCount), initial("0.bias", 1, kCount), initial("0.weight", 2, kCount)}) {
    double product = 0;
    for (size_t i = 0; i < values.size(); ++i) product += double{values[i]} * double{other[i]};
    EXPECT_LT(std::fabs(product / kCount * 3), 5 / std::sqrt(static_cast<double>(kCount)));  // the variance is 1/3
  }
}

}  // namespace
}  // namespace runner::nn
