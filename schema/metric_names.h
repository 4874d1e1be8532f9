// The metrics that an evaluation can record, and the labels that each needs.  Constant data, thread-safe.
#pragma once

#include <array>
#include <string_view>

namespace runner::schema {

enum class Labels { kAny, kClasses, kNumbers };

struct MetricName {
  std::string_view name;
  Labels labels;
};

inline constexpr std::array kMetricNames{
    MetricName{"loss", Labels::kAny},          MetricName{"accuracy", Labels::kClasses},
    MetricName{"top_K", Labels::kClasses},  // K being a number
    MetricName{"f1_macro", Labels::kClasses},  MetricName{"f1_micro", Labels::kClasses},
    MetricName{"f1_binary", Labels::kClasses}, MetricName{"mse", Labels::kNumbers},
    MetricName{"mae", Labels::kNumbers},       MetricName{"perplexity", Labels::kClasses},
};

// What a metric needs, given its name as a recipe writes it.
constexpr Labels labels_of(std::string_view metric) {
  for (const MetricName& known : kMetricNames)
    if (known.name == metric) return known.labels;
  return Labels::kClasses;  // top_3
}

}  // namespace runner::schema
