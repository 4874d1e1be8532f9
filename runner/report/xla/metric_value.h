// Values of metrics in a PyTorch/XLA report as text: "11010.00", "49.50KB", "28s920ms153.731us".
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/tpu/metrics_snapshot.h"
#include "runner/report/xla/duration.h"

namespace runner::report::xla {

using backends::tpu::MetricKind;

// `value`: a number, bytes, or nanoseconds, depending on `kind`.
std::string metric_value_text(double value, MetricKind kind, DurationStyle style);

struct MetricValue {
  MetricKind kind = MetricKind::kValue;
  double value = 0;          // except for kTime
  DurationReading duration;  // for kTime
};

// Infers the kind from the unit. Returns nullopt if the text is not a value.
std::optional<MetricValue> read_metric_value(std::string_view text);

}  // namespace runner::report::xla
