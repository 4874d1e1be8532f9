// Evaluation metrics against plain formulas, for any division into batches.

#include "runner/train/loop/metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/backends/support/on_threads.h"
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

// A case of metrics.json.
struct Case {
  explicit Case(const Golden& item)
      : is_class(item["inputs"].has("labels")),
        values(item["inputs"][is_class ? "logits" : "predictions"].tensor().as<float>()),
        mask(item["inputs"]["mask"].tensor().as<float>()),
        labels(is_class ? item["inputs"]["labels"].tensor().as<int64_t>() : std::vector<int64_t>()),
        targets(is_class ? std::vector<float>() : item["inputs"]["targets"].tensor().as<float>()),
        losses(is_class ? cross_entropies(values, labels) : std::vector<float>(mask.size())),
        weights(mask.size(), 1.0f),
        ranks(ranks_of(values, labels)),
        wanted(requested(item["metrics"])) {}

  size_t samples() const { return mask.size(); }
  Metrics empty() const {
    return Metrics({.requested = wanted,
                    .labels = is_class ? data::LabelKind::kClass : data::LabelKind::kTarget,
                    .outputs = static_cast<int64_t>(values.size() / samples())});
  }
  void add_to(Metrics& metrics, size_t first, size_t count) const {
    const auto part = [&](const auto& all) {
      const size_t width = all.size() / samples();
      return std::span(all).subspan(first * width, count * width);
    };
    metrics.add({.classes = part(labels),
                 .ranks = part(ranks),
                 .outputs = part(values),
                 .targets = part(targets),
                 .mask = part(mask),
                 .losses = part(losses),
                 .weights = part(weights)});
  }

  bool is_class;
  std::vector<float> values, mask;
  std::vector<int64_t> labels;
  std::vector<float> targets, losses, weights;
  std::vector<backends::LabelRank> ranks;
  std::vector<schema::Metric> wanted;
};

void expect_golden(const Metrics& metrics, const Golden& item) {
  const std::map<std::string, double> result = metrics.result();
  for (const std::string& name : item["metrics"].keys())
    EXPECT_NEAR(result.at(name), item["metrics"][name].number(), 1e-6) << name;
}

TEST(Metrics, MatchTheirDefinitionsForAnyBatches) {
  for (const Golden& item : Golden::load("metrics.json").cases()) {
    const Case data(item);
    for (const size_t batch : {data.samples(), size_t{1}, size_t{3}}) {
      SCOPED_TRACE(item.name() + " in batches of " + std::to_string(batch));
      Metrics metrics = data.empty();
      for (size_t first = 0; first < data.samples(); first += batch)
        data.add_to(metrics, first, std::min(batch, data.samples() - first));
      expect_golden(metrics, item);
    }
  }
}

TEST(Metrics, MatchTheirDefinitionsOnAnyRanks) {
  for (const Golden& item : Golden::load("metrics.json").cases()) {
    SCOPED_TRACE(item.name());
    const Case data(item);
    Metrics alone = data.empty();
    data.add_to(alone, 0, data.samples());
    const std::map<std::string, double> result = alone.result();
    std::vector<Metrics> merged(3, data.empty());
    backends::testing::on_threads(3, [&](backends::ProcessGroup& ranks) {
      Metrics& metrics = merged[static_cast<size_t>(ranks.rank())];
      for (auto i = static_cast<size_t>(ranks.rank()); i < data.samples(); i += 3) data.add_to(metrics, i, 1);
      metrics.merge(ranks, {"metrics", 0});
    });
    for (const Metrics& metrics : merged) {
      expect_golden(metrics, item);
      const std::map<std::string, double> of_ranks = metrics.result();
      for (const char* name : {"pearson", "spearman", "matthews", "f1_macro"})
        if (result.contains(name)) {
          EXPECT_EQ(of_ranks.at(name), result.at(name)) << name;
        }
    }
  }
}

TEST(Correlation, IsNanForConstantsAndNan) {
  using Pairs = std::vector<NumberPair>;
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  for (const Pairs& pairs :
       {Pairs{}, Pairs{{1, 2}}, Pairs{{1, 2}, {1, 3}}, Pairs{{1, 2}, {3, 2}}, Pairs{{1, 2}, {3, kNoNumber}, {4, 1}}}) {
    EXPECT_TRUE(std::isnan(pearson(pairs)));
    EXPECT_TRUE(std::isnan(spearman(pairs)));
  }
  EXPECT_DOUBLE_EQ(pearson({{1, 1e6f}, {2, 2e6f}, {3, 3e6f}}), 1);
  EXPECT_DOUBLE_EQ(spearman({{1, 3}, {2, 2}, {3, -7}}), -1);
}

// Each loss of a batch is that of a token. Traps: the mean of the batches' means, and of their perplexities.
TEST(Metrics, PerplexityIsThatOfAllTokens) {
  Metrics metrics({.requested = {{"loss"}, {"perplexity"}}, .labels = data::LabelKind::kClass, .outputs = 2});
  for (const auto& [tokens, loss] : {std::pair(size_t{10}, 2.0f), std::pair(size_t{2}, 4.0f)}) {
    const std::vector<float> ones(tokens, 1), losses(tokens, loss);
    const std::vector<int64_t> labels(tokens);
    const std::vector<backends::LabelRank> ranks(tokens);
    metrics.add({.classes = labels,
                 .ranks = ranks,
                 .outputs = {},
                 .targets = {},
                 .mask = ones,
                 .losses = losses,
                 .weights = ones});
  }
  EXPECT_NEAR(metrics.result().at("perplexity"), 10.31226, 1e-5);
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
  EXPECT_EQ(refusal({{"f1"}}, data::LabelKind::kClass, 3),
            "eval.metrics: f1 needs 2 classes, but the data has 3; use f1_macro or f1_micro");
  EXPECT_EQ(refusal({{"token_accuracy"}}, data::LabelKind::kClass, 3),
            "eval.metrics: token_accuracy needs a label per token, but the data has one per sample; use accuracy");
  EXPECT_EQ(refusal({{"spearman"}}, data::LabelKind::kTarget, 2),
            "eval.metrics: spearman needs one target per sample, but the data has 2");
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
