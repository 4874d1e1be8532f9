// Synthetic data.
#include "runner/data/synthetic.h"

#include <cmath>
#include <set>

#include "tests/data/load_fixture.h"

namespace runner::data {
namespace {

using schema::DataSpec;
using SyntheticTest = LoadTest;
using Floats = LargeArray<float>;
using Ints = LargeArray<int64_t>;

TEST_F(SyntheticTest, SamplesDependOnlyOnTheirIndex) {
  const Data small = load(synthetic(10, {3, 5}, 4), 11), large = load(synthetic(1000, {3, 5}, 4), 11);
  EXPECT_EQ(small.train.feature_shape(), (backends::Shape{3, 5}));
  EXPECT_EQ(small.train.outputs(), 4);
  const Floats a = features_of(small.train), b = features_of(large.train);
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  Floats alone(15);
  large.train.gather_features(Ints{7}, alone);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), b.begin() + 105));
  EXPECT_NE(features_of(load(synthetic(10, {3, 5}, 4), 12).train), a);
}

TEST_F(SyntheticTest, SectionsShareTheRuleOnly) {
  DataSpec spec = synthetic(2000, {16}, 5);
  spec.eval = spec.train;
  spec.eval->samples = 1000;
  const Data data = load(spec, 3);
  const Floats train = features_of(data.train), eval = features_of(*data.eval);
  EXPECT_FALSE(std::equal(eval.begin(), eval.begin() + 16, train.begin()));
  // Classifies the eval part by the nearest class centre of the training part.
  std::vector<std::vector<double>> centre(5, std::vector<double>(16));
  std::vector<double> count(5);
  const Ints labels = classes_of(data.train), eval_labels = classes_of(*data.eval);
  for (size_t i = 0; i < labels.size(); ++i) {
    ++count[static_cast<size_t>(labels[i])];
    for (size_t f = 0; f < 16; ++f) centre[static_cast<size_t>(labels[i])][f] += double{train[i * 16 + f]};
  }
  for (size_t c = 0; c < 5; ++c) EXPECT_NEAR(count[c], 400, 90);
  int right = 0;
  for (size_t i = 0; i < eval_labels.size(); ++i) {
    std::vector<double> distance(5);
    for (size_t c = 0; c < 5; ++c) {
      for (size_t f = 0; f < 16; ++f) distance[c] += std::pow(double{eval[i * 16 + f]} - centre[c][f] / count[c], 2);
    }
    right += std::min_element(distance.begin(), distance.end()) - distance.begin() == eval_labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 930);
}

TEST_F(SyntheticTest, TargetsAreLinearInTheFeatures) {
  const Data data = load(synthetic(3000, {6}, 0, 2), 3);
  const Floats x = features_of(data.train), y = targets_of(data.train);
  const auto [mean, deviation] = moments(y);
  EXPECT_NEAR(static_cast<double>(mean), 0, 0.1);
  EXPECT_GT(deviation, 0.4L);
  EXPECT_LT(deviation, 1.7L);
  // u has variance 1/3 and independent features, so w = 3 E[u y].
  for (size_t k = 0; k < 2; ++k) {
    std::vector<double> w(6);
    for (size_t i = 0; i < 3000; ++i) {
      for (size_t f = 0; f < 6; ++f) w[f] += 3.0 / 3000 * double{x[i * 6 + f]} * double{y[i * 2 + k]};
    }
    double error = 0;
    for (size_t i = 0; i < 3000; ++i) {
      double guess = 0;
      for (size_t f = 0; f < 6; ++f) guess += w[f] * double{x[i * 6 + f]};
      error += std::pow(guess - double{y[i * 2 + k]}, 2) / 3000;
    }
    EXPECT_LT(error, 0.02);
  }
}

TEST_F(SyntheticTest, DataSplitsAndHasAFingerprint) {
  DataSpec spec = synthetic(100, {4}, 3);
  spec.split = schema::SplitSpec{0.3};
  const Data data = load(spec, 1);
  EXPECT_EQ(data.train.size(), 70);
  EXPECT_EQ(data.eval->size(), 30);
  EXPECT_EQ(difference(data.train.fingerprint(), load(spec, 1).train.fingerprint()), "");
  EXPECT_EQ(difference(data.train.fingerprint(), load(spec, 2).train.fingerprint()), "the contents differ");
}

TEST_F(SyntheticTest, DataIsNotStored) {
  const Data data = load(synthetic(INT32_MAX, {3, 224, 224}, 1000), 1);
  EXPECT_EQ(data.train.size(), INT32_MAX);
  Ints label(1);
  data.train.gather_classes(Ints{INT32_MAX - 1}, label);
  EXPECT_LT(label[0], 1000);
}

TEST_F(SyntheticTest, DataMustSuitTheLoss) {
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 0), 0); }),
            "synthetic data needs samples, and either classes or targets");
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 2), 0, LabelsAs::kTargets); }),
            "synthetic classes cannot be used with a regression loss; set targets instead of classes");
  EXPECT_EQ(message_of([&] { load(synthetic(1, {1}, 0, 2), 0, LabelsAs::kClasses); }),
            "synthetic targets cannot be used with a classification loss; set classes instead of targets");
}

}  // namespace
}  // namespace runner::data
