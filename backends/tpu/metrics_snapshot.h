// Metrics and counters of a device at one moment: the source of reports, and what is stored with a run.
//
// A plain value. It includes entries that were never used, with zeros; printers decide what to omit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::backends::tpu {

// Unit of a metric's values. All are stored as integers; only their texts differ.
enum class MetricKind : uint8_t {
  kValue,  // dimensionless
  kBytes,
  kTime,  // nanoseconds
};

struct MetricSample {
  int64_t at_ns = 0;  // CLOCK_MONOTONIC
  int64_t value = 0;

  bool operator==(const MetricSample&) const = default;
};

struct MetricSnapshot {
  std::string name;
  MetricKind kind = MetricKind::kValue;
  int64_t count = 0;  // all samples, not only those in `ring`
  int64_t sum = 0;
  std::vector<MetricSample> ring;  // latest samples, oldest first, at most kMetricRing

  // Time between the oldest and the newest sample of the ring.
  int64_t window_ns() const { return ring.empty() ? 0 : ring.back().at_ns - ring.front().at_ns; }
  bool operator==(const MetricSnapshot&) const = default;
};

struct CounterSnapshot {
  std::string name;
  int64_t value = 0;

  bool operator==(const CounterSnapshot&) const = default;
};

struct MetricsSnapshot {
  std::vector<MetricSnapshot> metrics;
  std::vector<CounterSnapshot> counters;

  bool operator==(const MetricsSnapshot&) const = default;
};

inline constexpr size_t kMetricRing = 1024;  // samples; PyTorch/XLA's default

}  // namespace runner::backends::tpu
