#include "runner/train/loop/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace

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
    RUN_CHECK(metric.name != "f1_binary" || spec_.outputs == 2, ErrorKind::kRecipe,
              "eval.metrics: f1_binary needs 2 classes, but the data has {}; use f1_macro or f1_micro", spec_.outputs);
  }
}

// Whether sample i is no padding and not to be ignored.
bool Metrics::counts(const Scored& batch, size_t i) const {
  return batch.mask[i] != 0 && !(classes_ && spec_.ignored_label && batch.classes[i] == *spec_.ignored_label);
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
}

void Metrics::add_classes(const Scored& batch) {
  for (size_t i = 0; i < batch.mask.size(); ++i) {
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
