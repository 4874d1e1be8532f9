// Figures of an evaluation, gathered sample by sample on the host in f64; padding never counts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/collectives/collectives.h"
#include "runner/data/encoding.h"
#include "schema/recipe.h"

namespace runner::train {

// One batch as the model left it.
struct Scored {
  std::span<const float> outputs;    // (B, N)
  std::span<const int64_t> classes;  // (B), for classes
  std::span<const float> targets;    // (B, N), for targets
  std::span<const float> mask;       // (B): 0 marks padding
  std::span<const float> losses;     // (B)
  std::span<const float> weights;    // (B): what each sample counts in the loss
};

class Metrics {
 public:
  // Empty `wanted`: loss, and accuracy for classes.  Throws Error(kRecipe) for a metric that the labels do not allow,
  // or a top_k with more than `outputs` classes.
  Metrics(std::vector<schema::Metric> wanted, data::LabelKind labels, int64_t outputs);

  // Throws Error(kRun) for a weight that is negative.
  void add(const Scored& batch);
  // All replicas' counts and sums, the latter folded over ranks.
  void merge(backends::Collectives& ranks, const backends::Site& site);

  // By name, without "eval/".  NaN where nothing was counted.
  //   loss        Σ loss / Σ weight
  //   perplexity  exp(loss)
  //   accuracy    share of samples whose largest output (the first of equals; NaN is largest) is the class
  //   top_k       share of samples whose class is among the k largest outputs (of equals the first count as larger)
  //   f1_macro    mean over classes of 2 tp / (2 tp + fp + fn), 0 where that is 0/0
  //   f1_micro    the same of the sums over classes
  //   f1_binary   of class 1 alone
  //   mse, mae    mean over samples and targets
  std::map<std::string, double> result() const;

  // Samples with an output or a target that is NaN: metrics that compare may not show it.
  int64_t nan_samples() const { return nan_samples_; }
  int64_t samples() const { return samples_; }

 private:
  void add_classes(const Scored& batch);
  void add_targets(const Scored& batch);
  double value(const schema::Metric& metric) const;
  double f1(size_t first_class, size_t last_class, bool pooled) const;

  std::vector<schema::Metric> wanted_;
  size_t outputs_;
  bool classes_;
  double loss_ = 0, weight_ = 0;
  int64_t samples_ = 0, nan_samples_ = 0;
  std::vector<int64_t> rank_counts_;                          // samples whose class has the i-th largest output
  std::vector<int64_t> true_positives_, predicted_, actual_;  // by class
  double squared_error_ = 0, absolute_error_ = 0;
};

}  // namespace runner::train
