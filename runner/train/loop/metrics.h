// Evaluation metrics, accumulated per sample on the host in f64. Padding never counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/ir/label_rank.h"
#include "runner/data/encoding.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Results of the model for one batch.
struct Scored {
  std::span<const int64_t> classes;            // (B L), for classes: L labels of each sample
  std::span<const backends::LabelRank> ranks;  // (B L), of these among the outputs
  std::span<const float> outputs, targets;     // (B, N), for targets
  std::span<const float> mask;                 // (B): 0 marks padding
  std::span<const float> losses;               // (B)
  std::span<const float> weights;              // (B): weights in the loss
  // (B): loss without smoothing and class weights, and its weights; empty if they are the same.
  std::span<const float> plain_losses = {}, plain_weights = {};
  bool own_loss = false;  // whether `losses` are those of a hook
  size_t labels = 1;      // L: the number of tokens if each has a label, which counts as a sample
};

// What is measured.
struct MetricsSpec {
  std::vector<schema::Metric> requested;  // if empty: loss, and accuracy for classes
  data::LabelKind labels;
  int64_t outputs;                                      // number of classes, or of targets
  std::optional<int64_t> ignored_label = std::nullopt;  // samples with it count nowhere
  bool are_tokens = false;                              // whether the samples are tokens
};

// A number to predict and its prediction.
struct NumberPair {
  float target = 0, prediction = 0;

  static auto parts(auto& self) { return std::tie(self.target, self.prediction); }
  auto operator<=>(const NumberPair&) const = default;
};
// Pearson's correlation. Sorts the pairs, so that it does not depend on their order. NaN if a value is NaN, or if all
// targets or all predictions are equal.
double pearson(std::vector<NumberPair> pairs);
// Spearman's correlation: that of the ranks. Equal values have the mean of their ranks.
double spearman(std::vector<NumberPair> pairs);

class Metrics {
 public:
  // Throws Error(kRecipe) for a metric that does not fit the labels or their number.
  explicit Metrics(MetricsSpec spec);

  // Throws Error(kRun) for a negative weight.
  void add(const Scored& batch);
  // Adds counts and sums of all ranks; sums are left folds over ranks. Collects the pairs of pearson and spearman.
  // Collective.
  void merge(backends::ProcessGroup& ranks, const backends::Site& site);

  // By name, without "eval/". NaN if nothing was counted.
  //   loss        Σ loss / Σ weight of plain losses, or of those of a hook
  //   objective   the same of losses with smoothing and class weights; also there in addition to `loss` if they differ
  //   perplexity  exp(Σ loss / Σ weight) of plain losses, which are negative log-likelihoods
  //   accuracy    share of samples whose largest output (the first of equal ones; NaN is largest) is the class
  //   top_k       share of samples whose class is among the k largest outputs (of equal ones, the first are larger)
  //   f1_macro    mean over classes of 2 tp / (2 tp + fp + fn); skips classes where it is 0/0; 0 if all are skipped
  //   f1_micro    the same formula for the sums over classes
  //   f1_binary   the same formula for class 1; also called f1, as in scikit-learn
  //   matthews    correlation of labels and predicted classes, as matthews_corrcoef of scikit-learn; 0 if either is
  //               constant
  //   token_accuracy  accuracy, of tokens only
  //   mse, mae    mean over samples and targets
  //   pearson, spearman  correlation of predictions and targets, and of their ranks, as in scipy; NaN if either is
  //               constant. The same to the bit for any order of the samples
  std::map<std::string, double> result() const;

  // Number of samples with a NaN output or target, which comparing metrics may hide.
  int64_t nan_samples() const { return nan_samples_; }
  // Number of samples whose loss, or weight in the loss, is not finite.
  int64_t not_finite_losses() const { return not_finite_losses_; }
  bool has_no_weight() const { return losses_.weight == 0; }
  int64_t samples() const { return samples_; }

 private:
  // A sum of losses and of their weights.
  struct Sums {
    double loss = 0, weight = 0;
    void add(float of_loss, float of_weight) {
      loss += static_cast<double>(of_loss);
      weight += static_cast<double>(of_weight);
    }
    double mean() const;
  };
  void add_classes(const Scored& batch);
  void add_targets(const Scored& batch);
  bool counts(const Scored& batch, size_t i) const;
  double value(const schema::Metric& metric) const;
  double mean_over_targets(double sum) const;
  double top(int64_t k) const;
  double f1(size_t first_class, size_t last_class, bool pooled) const;
  double matthews() const;

  MetricsSpec spec_;
  size_t outputs_;
  bool classes_;
  Sums losses_, plain_;
  int64_t samples_ = 0, nan_samples_ = 0, not_finite_losses_ = 0;
  int64_t own_losses_ = 0, apart_ = 0;  // samples whose loss is a hook's; whose plain loss may differ
  std::vector<int64_t> rank_counts_;    // samples whose class has the i-th largest output
  std::vector<int64_t> true_positives_, predicted_, actual_;  // by class
  double squared_error_ = 0, absolute_error_ = 0;
  bool keeps_pairs_ = false;
  std::vector<NumberPair> pairs_;  // with keeps_pairs_
};

}  // namespace runner::train
