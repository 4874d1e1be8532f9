// Evaluation metrics against plain formulas, for any division into batches.

#include "runner/train/loop/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/golden/golden.h"

namespace runner::train {
namespace {

using testing::Golden;

std::vector<schema::Metric> requested(const Golden& metrics) {
  std::vector<schema::Metric> result;
  for (const std::string& name : metrics.keys())
    result.push_back({name, name.starts_with("top_") ? std::stoll(name.substr(4)) : 0});
  return result;
}

// −log softmax of the label, for classes.
std::vector<float> cross_entropies(const std::vector<float>& logits, const std::vector<int64_t>& labels) {
  const size_t classes = logits.size() / labels.size();
  std::vector<float> losses;
  for (size_t i = 0; i < labels.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(logits[i * classes + c]));
    losses.push_back(
        static_cast<float>(std::log(sum) - static_cast<double>(logits[i * classes + static_cast<size_t>(labels[i])])));
  }
  return losses;
}

// By the definition of metrics.h, for finite logits.
std::vector<backends::LabelRank> ranks_of(const std::vector<float>& logits, const std::vector<int64_t>& labels) {
  const auto classes = static_cast<int64_t>(logits.size() / std::max<size_t>(labels.size(), 1));
  std::vector<backends::LabelRank> ranks;
  for (size_t i = 0; i < labels.size(); ++i) {
    const float* const row = logits.data() + static_cast<ptrdiff_t>(i) * classes;
    std::vector<int64_t> order(static_cast<size_t>(classes));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int64_t c) { return row[c]; });
    ranks.push_back({std::ranges::find(order, labels[i]) - order.begin(), order[0], 0});
  }
  return ranks;
}

TEST(Metrics, MatchTheirDefinitionsForAnyBatches) {
  for (const Golden& item : Golden::load("metrics.json").cases()) {
    const bool classes = item["inputs"].has("labels");
    const auto outputs = item["inputs"][classes ? "logits" : "predictions"].tensor();
    const std::vector<float> values = outputs.as<float>(), mask = item["inputs"]["mask"].tensor().as<float>();
    const size_t samples = mask.size(), width = values.size() / samples;
    const auto labels = classes ? item["inputs"]["labels"].tensor().as<int64_t>() : std::vector<int64_t>();
    const auto targets = classes ? std::vector<float>() : item["inputs"]["targets"].tensor().as<float>();
    const std::vector<float> losses = classes ? cross_entropies(values, labels) : std::vector<float>(samples);
    const std::vector<float> weights(samples, 1.0f);
    const std::vector<backends::LabelRank> ranks = ranks_of(values, labels);
    for (const size_t batch : {samples, size_t{1}, size_t{3}}) {
      SCOPED_TRACE(item.name() + " in batches of " + std::to_string(batch));
      Metrics metrics({.requested = requested(item["metrics"]),
                       .labels = classes ? data::LabelKind::kClass : data::LabelKind::kTarget,
                       .outputs = static_cast<int64_t>(width)});
      for (size_t first = 0; first < samples; first += batch) {
        const size_t n = std::min(batch, samples - first);
        const auto part = [&](const auto& all, size_t per_sample) {
          return all.empty() ? std::span(all) : std::span(all).subspan(first * per_sample, n * per_sample);
        };
        metrics.add({.classes = part(labels, 1),
                     .ranks = part(ranks, 1),
                     .outputs = part(values, width),
                     .targets = part(targets, width),
                     .mask = part(mask, 1),
                     .losses = part(losses, 1),
                     .weights = part(weights, 1)});
      }
      const std::map<std::string, double> result = metrics.result();
      for (const std::string& name : item["metrics"].keys())
        EXPECT_NEAR(result.at(name), item["metrics"][name].number(), 1e-6) << name;
    }
  }
}

TEST(Metrics, AreNanWithoutSamples) {
  const Metrics metrics({.requested = {{"loss"}, {"accuracy"}}, .labels = data::LabelKind::kClass, .outputs = 3});
  for (const auto& [name, value] : metrics.result()) EXPECT_TRUE(std::isnan(value)) << name;
}

std::string refusal(std::vector<schema::Metric> requested, data::LabelKind labels, int64_t outputs) {
  try {
    Metrics metrics({.requested = std::move(requested), .labels = labels, .outputs = outputs});
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Metrics, RejectMetricsThatTheLabelsDoNotAllow) {
  EXPECT_EQ(refusal({{"mse"}}, data::LabelKind::kClass, 3),
            "eval.metrics: mse needs targets, but the data has classes");
  EXPECT_EQ(refusal({{"accuracy"}}, data::LabelKind::kTarget, 1),
            "eval.metrics: accuracy needs classes, but the data has targets");
  EXPECT_EQ(refusal({{"top_5", 5}}, data::LabelKind::kClass, 3),
            "eval.metrics: top_5 exceeds the 3 classes of the data");
  EXPECT_EQ(refusal({{"f1_binary"}}, data::LabelKind::kClass, 3),
            "eval.metrics: f1_binary needs 2 classes, but the data has 3; use f1_macro or f1_micro");
}

// A label outside the classes counts in the loss, and a NaN in its row is reported.
TEST(Metrics, SkipLabelsOfNoClass) {
  const std::vector<float> ones = {1, 1};
  const std::vector<int64_t> labels = {1, -1};
  const std::vector<backends::LabelRank> ranks = {{0, 1, 0}, {-1, 2, 1}};
  Metrics metrics(
      {.requested = {{"loss"}, {"accuracy"}, {"f1_micro"}}, .labels = data::LabelKind::kClass, .outputs = 3});
  metrics.add(
      {.classes = labels, .ranks = ranks, .outputs = {}, .targets = {}, .mask = ones, .losses = ones, .weights = ones});
  EXPECT_EQ(metrics.result().at("loss"), 1);
  EXPECT_EQ(metrics.result().at("accuracy"), 1);
  EXPECT_EQ(metrics.result().at("f1_micro"), 1);
  EXPECT_EQ(metrics.nan_samples(), 1);
}

// Ignored labels have losses and weights of 0, as train.ignore_index gives them.
TEST(Metrics, IgnoreALabelEverywhere) {
  const std::vector<int64_t> labels = {0, 2, 1, 2};
  const std::vector<backends::LabelRank> ranks = {{0, 0, 0}, {2, 0, 1}, {1, 0, 0}, {0, 2, 0}};
  const std::vector<float> mask = {1, 1, 1, 1}, losses = {0.5f, 0, 1.5f, 0}, weights = {1, 0, 1, 0};
  Metrics metrics({.requested = {{"loss"}, {"accuracy"}, {"top_2", 2}, {"f1_macro"}, {"f1_micro"}, {"perplexity"}},
                   .labels = data::LabelKind::kClass,
                   .outputs = 3,
                   .ignored_label = 2});
  metrics.add({.classes = labels,
               .ranks = ranks,
               .outputs = {},
               .targets = {},
               .mask = mask,
               .losses = losses,
               .weights = weights});
  const std::map<std::string, double> values = metrics.result();
  EXPECT_EQ(values.at("loss"), 1);
  EXPECT_EQ(values.at("perplexity"), std::exp(1.0));
  EXPECT_EQ(values.at("accuracy"), 0.5);
  EXPECT_EQ(values.at("top_2"), 1);
  EXPECT_DOUBLE_EQ(values.at("f1_macro"), (2.0 / 3 + 0) / 2);
  EXPECT_EQ(values.at("f1_micro"), 0.5);
  EXPECT_EQ(metrics.samples(), 2);
  EXPECT_EQ(metrics.nan_samples(), 0);
}

TEST(Metrics, ReportThePlainLossAndTheObjective) {
  const std::vector<int64_t> labels = {0, 1};
  const std::vector<backends::LabelRank> ranks = {{0, 0, 0}, {0, 1, 0}};
  const std::vector<float> mask = {1, 1}, losses = {6, 3}, weights = {2, 1}, plain = {1, 2}, ones = {1, 1};
  const auto result = [&](bool own_loss, bool apart) {
    Metrics metrics({.requested = {{"loss"}, {"perplexity"}}, .labels = data::LabelKind::kClass, .outputs = 2});
    metrics.add({.classes = labels,
                 .ranks = ranks,
                 .outputs = {},
                 .targets = {},
                 .mask = mask,
                 .losses = losses,
                 .weights = weights,
                 .plain_losses = apart ? std::span(plain) : std::span<const float>(),
                 .plain_weights = apart ? std::span(ones) : std::span<const float>(),
                 .own_loss = own_loss});
    return metrics.result();
  };
  using Values = std::map<std::string, double>;
  EXPECT_EQ(result(false, true), (Values{{"loss", 1.5}, {"objective", 3}, {"perplexity", std::exp(1.5)}}));
  EXPECT_EQ(result(true, true), (Values{{"loss", 3}, {"perplexity", std::exp(1.5)}}));
  EXPECT_EQ(result(false, false), (Values{{"loss", 3}, {"perplexity", std::exp(3.0)}}));
}

}  // namespace
}  // namespace runner::train
