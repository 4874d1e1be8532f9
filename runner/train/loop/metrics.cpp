#include "runner/train/loop/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runner/train/step/gathering.h"
#include "schema/base/error.h"
#include "schema/recipe/metric_names.h"

namespace runner::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double ratio(double part, double whole) {
  return whole == 0 ? kNan : part / whole;
}

// Whether row i of rows of `width` values contains a NaN.
bool has_nan(std::span<const float> rows, size_t i, size_t width) {
  return std::ranges::any_of(rows.subspan(i * width, width), [](float value) { return std::isnan(value); });
}

// Sums each number over all ranks. Collective.
template <class T>
void merge_numbers(const std::vector<T*>& numbers, backends::DType dtype, backends::ProcessGroup& ranks,
                   const backends::Site& site) {
  std::vector<T> packed;
  for (const T* number : numbers) packed.push_back(*number);
  ranks.all_reduce({dtype, backends::Shape{std::ssize(packed)}}, std::as_writable_bytes(std::span(packed)),
                   backends::Reduction::kSum, site);
  for (size_t i = 0; i < packed.size(); ++i) *numbers[i] = packed[i];
}

// Collects the pairs of all ranks. Collective.
void merge_pairs(std::vector<NumberPair>& pairs, backends::ProcessGroup& ranks, const backends::Site& site) {
  const std::vector<std::vector<NumberPair>> all = gather_values(pairs, ranks, site);
  pairs.clear();
  for (const std::vector<NumberPair>& of_rank : all) pairs.insert(pairs.end(), of_rank.begin(), of_rank.end());
}

// Correlation of two sequences in f64.
double correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  const auto mean = [&](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / n;
  };
  const double mean_x = mean(x), mean_y = mean(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx == 0 || yy == 0) return kNan;
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

// Ranks from 1; equal values have the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + 1 + end) / 2;
  }
  return ranks;
}

// Correlation of targets and predictions, after `values_of` has converted both.
template <class ValuesOf>
double correlation_of(std::vector<NumberPair> pairs, const ValuesOf& values_of) {
  const auto is_nan = [](const NumberPair& pair) { return std::isnan(pair.target) || std::isnan(pair.prediction); };
  if (pairs.empty() || std::ranges::any_of(pairs, is_nan)) return kNan;
  std::ranges::sort(pairs, [](const NumberPair& a, const NumberPair& b) { return a < b; });
  std::vector<double> targets, predictions;
  for (const NumberPair& pair : pairs) {
    targets.push_back(static_cast<double>(pair.target));
    predictions.push_back(static_cast<double>(pair.prediction));
  }
  return correlation(values_of(targets), values_of(predictions));
}

}  // namespace

double pearson(std::vector<NumberPair> pairs) {
  return correlation_of(std::move(pairs), [](const std::vector<double>& values) { return values; });
}

double spearman(std::vector<NumberPair> pairs) {
  return correlation_of(std::move(pairs), ranks_of);
}

Metrics::Metrics(MetricsSpec spec)
    : spec_(std::move(spec)),
      outputs_(static_cast<size_t>(spec_.outputs)),
      classes_(spec_.labels == data::LabelKind::kClass),
      rank_counts_(outputs_),
      true_positives_(outputs_),
      predicted_(outputs_),
      actual_(outputs_) {
  if (spec_.requested.empty()) {
    spec_.requested = {{.name = "loss"}};
    if (classes_) spec_.requested.push_back({.name = "accuracy"});
  }
  for (const schema::Metric& metric : spec_.requested) {
    RUN_CHECK(schema::labels_of(metric.name) != (classes_ ? schema::Labels::kNumbers : schema::Labels::kClasses),
              ErrorKind::kRecipe, "eval.metrics: {} needs {}, but the data has {}", metric.name,
              classes_ ? "targets" : "classes", classes_ ? "classes" : "targets");
    RUN_CHECK(metric.k <= spec_.outputs, ErrorKind::kRecipe, "eval.metrics: {} exceeds the {} classes of the data",
              metric.name, spec_.outputs);
    RUN_CHECK((metric.name != "f1_binary" && metric.name != "f1") || spec_.outputs == 2, ErrorKind::kRecipe,
              "eval.metrics: {} needs 2 classes, but the data has {}; use f1_macro or f1_micro", metric.name,
              spec_.outputs);
    RUN_CHECK(metric.name != "token_accuracy" || spec_.are_tokens, ErrorKind::kRecipe,
              "eval.metrics: token_accuracy needs a label per token, but the data has one per sample; use accuracy");
    const bool correlates = metric.name == "pearson" || metric.name == "spearman";
    RUN_CHECK(!correlates || spec_.outputs == 1, ErrorKind::kRecipe,
              "eval.metrics: {} needs one target per sample, but the data has {}", metric.name, spec_.outputs);
    keeps_pairs_ |= correlates;
  }
}

// Whether sample i is no padding and not to be ignored.
bool Metrics::counts(const Scored& batch, size_t i) const {
  return batch.mask[i / batch.labels] != 0 &&
         !(classes_ && spec_.ignored_label && batch.classes[i] == *spec_.ignored_label);
}

// Ignored labels have no weight in the recipe's loss. A hook's loss decides for itself.
void Metrics::add(const Scored& batch) {
  const bool apart = !batch.plain_losses.empty();
  for (size_t i = 0; i < batch.mask.size(); ++i) {
    if (batch.mask[i] == 0) continue;
    RUN_CHECK(!(batch.weights[i] < 0), ErrorKind::kRun,
              "evaluation_step returned {} as the weight of a sample, expected a number of at least 0",
              batch.weights[i]);
    losses_.add(batch.losses[i], batch.weights[i]);
    plain_.add((apart ? batch.plain_losses : batch.losses)[i], (apart ? batch.plain_weights : batch.weights)[i]);
    own_losses_ += batch.own_loss;
    apart_ += apart;
    not_finite_losses_ += !std::isfinite(batch.losses[i]) || !std::isfinite(batch.weights[i]);
  }
  for (size_t i = 0; i < batch.mask.size() * batch.labels; ++i) {
    if (!counts(batch, i)) continue;
    ++samples_;
    nan_samples_ += classes_ ? batch.ranks[i].has_nan != 0
                             : has_nan(batch.outputs, i, outputs_) || has_nan(batch.targets, i, outputs_);
  }
  classes_ ? add_classes(batch) : add_targets(batch);
}

void Metrics::merge(backends::ProcessGroup& ranks, const backends::Site& site) {
  std::vector<double*> sums{&losses_.loss,  &losses_.weight, &plain_.loss,
                            &plain_.weight, &squared_error_, &absolute_error_};
  std::vector<int64_t*> counts{&samples_, &nan_samples_, &not_finite_losses_, &own_losses_, &apart_};
  for (std::vector<int64_t>* by_class : {&rank_counts_, &true_positives_, &predicted_, &actual_})
    for (int64_t& count : *by_class) counts.push_back(&count);
  merge_numbers(sums, backends::DType::kF64, ranks, site);
  merge_numbers(counts, backends::DType::kI64, ranks, site);
  if (keeps_pairs_) merge_pairs(pairs_, ranks, site);
}

void Metrics::add_classes(const Scored& batch) {
  for (size_t i = 0; i < batch.mask.size() * batch.labels; ++i) {
    const backends::LabelRank& rank = batch.ranks[i];
    if (!counts(batch, i) || rank.rank < 0) continue;  // a label of no class
    const auto actual = static_cast<size_t>(batch.classes[i]), predicted = static_cast<size_t>(rank.predicted);
    ++rank_counts_[static_cast<size_t>(rank.rank)];
    ++actual_[actual];
    ++predicted_[predicted];
    true_positives_[actual] += predicted == actual;
  }
}

void Metrics::add_targets(const Scored& batch) {
  for (size_t i = 0; i < batch.mask.size(); ++i) {
    if (batch.mask[i] == 0) continue;
    if (keeps_pairs_) pairs_.push_back({batch.targets[i], batch.outputs[i]});
    for (size_t j = i * outputs_; j < (i + 1) * outputs_; ++j) {
      const double error = static_cast<double>(batch.outputs[j]) - static_cast<double>(batch.targets[j]);
      squared_error_ += error * error;
      absolute_error_ += std::fabs(error);
    }
  }
}

double Metrics::f1(size_t first_class, size_t last_class, bool pooled) const {
  double sum = 0;
  int64_t hits = 0, total = 0, present = 0;
  for (size_t c = first_class; c < last_class; ++c) {
    const int64_t both = predicted_[c] + actual_[c];  // 2 tp + fp + fn
    if (both == 0) continue;
    sum += 2.0 * static_cast<double>(true_positives_[c]) / static_cast<double>(both);
    hits += 2 * true_positives_[c];
    total += both;
    ++present;
  }
  if (samples_ == 0) return kNan;
  if (present == 0) return 0.0;
  return pooled ? static_cast<double>(hits) / static_cast<double>(total) : sum / static_cast<double>(present);
}

// From the marginals of the confusion matrix, in f64, which is exact below 2^53.
double Metrics::matthews() const {
  double samples = 0, hits = 0, actual_squares = 0, predicted_squares = 0, products = 0;
  for (size_t c = 0; c < outputs_; ++c) {
    const auto actual = static_cast<double>(actual_[c]), predicted = static_cast<double>(predicted_[c]);
    samples += actual;
    hits += static_cast<double>(true_positives_[c]);
    actual_squares += actual * actual;
    predicted_squares += predicted * predicted;
    products += actual * predicted;
  }
  if (samples == 0) return kNan;
  const double all = samples * samples, of_actual = all - actual_squares, of_predicted = all - predicted_squares;
  if (of_actual == 0 || of_predicted == 0) return 0.0;
  return (hits * samples - products) / (std::sqrt(of_actual) * std::sqrt(of_predicted));
}

double Metrics::Sums::mean() const {
  return ratio(loss, weight);
}

double Metrics::mean_over_targets(double sum) const {
  return ratio(sum, static_cast<double>(samples_) * static_cast<double>(outputs_));
}

// Share of samples whose label is among the k largest outputs.
double Metrics::top(int64_t k) const {
  int64_t counted = 0, hits = 0;
  for (size_t rank = 0; rank < outputs_; ++rank) {
    counted += rank_counts_[rank];
    if (static_cast<int64_t>(rank) < k) hits += rank_counts_[rank];
  }
  return ratio(static_cast<double>(hits), static_cast<double>(counted));
}

// One row for each name of schema::kMetricNames.
double Metrics::value(const schema::Metric& metric) const {
  struct Row {
    std::string_view name;
    double (*value)(const Metrics& all, int64_t k);
  };
  static constexpr Row kRows[] = {
      {"loss", [](const Metrics& all, int64_t) { return (all.own_losses_ > 0 ? all.losses_ : all.plain_).mean(); }},
      {"objective", [](const Metrics& all, int64_t) { return all.losses_.mean(); }},
      {"accuracy", [](const Metrics& all, int64_t) { return all.top(1); }},
      {"top_K", [](const Metrics& all, int64_t k) { return all.top(std::max<int64_t>(k, 1)); }},
      {"f1_macro", [](const Metrics& all, int64_t) { return all.f1(0, all.outputs_, false); }},
      {"f1_micro", [](const Metrics& all, int64_t) { return all.f1(0, all.outputs_, true); }},
      {"f1_binary", [](const Metrics& all, int64_t) { return all.f1(1, 2, false); }},
      {"mse", [](const Metrics& all, int64_t) { return all.mean_over_targets(all.squared_error_); }},
      {"mae", [](const Metrics& all, int64_t) { return all.mean_over_targets(all.absolute_error_); }},
      {"perplexity", [](const Metrics& all, int64_t) { return std::exp(all.plain_.mean()); }},
      {"f1", [](const Metrics& all, int64_t) { return all.f1(1, 2, false); }},
      {"matthews", [](const Metrics& all, int64_t) { return all.matthews(); }},
      {"pearson", [](const Metrics& all, int64_t) { return pearson(all.pairs_); }},
      {"spearman", [](const Metrics& all, int64_t) { return spearman(all.pairs_); }},
      {"token_accuracy", [](const Metrics& all, int64_t) { return all.top(1); }},
  };
  static_assert(std::size(kRows) == schema::kMetricNames.size());
  const std::string_view name = metric.name.starts_with("top_") ? "top_K" : std::string_view(metric.name);
  const auto row = std::ranges::find(kRows, name, &Row::name);
  RUN_ASSERT(row != std::end(kRows));
  return row->value(*this, metric.k);
}

std::map<std::string, double> Metrics::result() const {
  std::map<std::string, double> values;
  for (const schema::Metric& metric : spec_.requested) values[metric.name] = value(metric);
  if (values.contains("loss") && apart_ > 0 && own_losses_ == 0) values["objective"] = losses_.mean();
  return values;
}

}  // namespace runner::train
