// The metrics and counters of a device at one moment: what a report is made of, and what is stored of a run.
//
// A plain value.  Entries that never moved are in it, with zeros: who prints decides what to leave out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::backends::tpu {

// What the values of a metric are: they are kept as integers, and only texts differ.
enum class MetricKind : uint8_t {
  kValue,  // a plain number
  kBytes,
  kTime,  // nanoseconds
};

struct MetricSample {
  int64_t at_ns = 0;  // of CLOCK_MONOTONIC
  int64_t value = 0;

  bool operator==(const MetricSample&) const = default;
};

struct MetricSnapshot {
  std::string name;
  MetricKind kind = MetricKind::kValue;
  int64_t count = 0;  // of all samples
  int64_t sum = 0;
  std::vector<MetricSample> ring;  // the last ones, oldest first: no more than kMetricRing of them

  // Between the oldest and the newest sample of the ring.
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
