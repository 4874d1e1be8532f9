// Metrics that a run records, and the labels that evaluation metrics need. Constant data, thread-safe.
#pragma once

#include <array>
#include <string_view>

#include "schema/base/error.h"

namespace runner::schema {

enum class Labels { kAny, kClasses, kNumbers };

struct MetricName {
  std::string_view name;
  Labels labels;
  bool larger_is_better;
};

inline constexpr std::array kMetricNames{
    MetricName{"loss", Labels::kAny, false},
    MetricName{"objective", Labels::kAny, false},
    MetricName{"accuracy", Labels::kClasses, true},
    MetricName{"top_K", Labels::kClasses, true},  // K is a number
    MetricName{"f1_macro", Labels::kClasses, true},
    MetricName{"f1_micro", Labels::kClasses, true},
    MetricName{"f1_binary", Labels::kClasses, true},
    MetricName{"mse", Labels::kNumbers, false},
    MetricName{"mae", Labels::kNumbers, false},
    MetricName{"perplexity", Labels::kClasses, false},
    MetricName{"f1", Labels::kClasses, true},
    MetricName{"matthews", Labels::kClasses, true},
    MetricName{"pearson", Labels::kNumbers, true},
    MetricName{"spearman", Labels::kNumbers, true},
    MetricName{"token_accuracy", Labels::kClasses, true},
};

// Training metrics, recorded as train/NAME.
inline constexpr std::array<std::string_view, 5> kTrainingMetrics{"loss", "lr", "grad_norm", "scale", "samples_per_s"};

// Whether eval.metrics accepts a name.
constexpr bool is_metric_name(std::string_view name) {
  for (const MetricName& known : kMetricNames)
    if (known.name == name) return true;
  return name.starts_with("top_") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == name.npos;
}

// Labels that a metric needs. `metric`: a name that eval.metrics accepts.
constexpr Labels labels_of(std::string_view metric) {
  RUN_ASSERT(is_metric_name(metric));
  for (const MetricName& known : kMetricNames)
    if (known.name == metric) return known.labels;
  return Labels::kClasses;  // top_3
}

// Whether the best value of a recorded metric ("eval/accuracy") is the largest. Uses the part after the last slash:
// names in the table, else words that occur in names chosen by hooks.
constexpr bool larger_is_better(std::string_view metric) {
  const std::string_view name = metric.substr(metric.rfind('/') + 1);
  for (const MetricName& known : kMetricNames)
    if (known.name == name) return known.larger_is_better;
  constexpr std::string_view kWords[] = {"acc",   "f1",     "top_", "auc", "precision", "recall",
                                         "score", "reward", "bleu", "iou", "per_s"};
  for (const std::string_view word : kWords)
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

}  // namespace runner::schema
