#include "backends/tpu/metrics.h"

#include <algorithm>
#include <utility>

namespace runner::backends::tpu {
namespace {

using enum MetricKind;
using enum MetricGroup;

// In enumeration order. Groups are those in the report of torch_xla 2.9.
constexpr std::array<MetricRow, kMetricCount> kMetrics{{
    {"CompileTime", kTime, kRuntime},
    {"ExecuteTime", kTime, kRuntime},
    {"DeviceLockWait", kTime, kTracing},
    {"TensorsGraphSize", kValue, kTracing},
    {"InputOutputAliasCount", kValue, kTracing},
    {"TransferToDeviceTime", kTime, kRuntime},
    {"TransferFromDeviceTime", kTime, kRuntime},
    {"OutboundData", kBytes, kRuntime},
    {"InboundData", kBytes, kRuntime},
    {"TensorToData", kTime, kTracing},
    {"LazyTracing", kTime, kTracing},
    {"PersistentCacheLoad", kTime, kTracing},
    {"EagerOpCompileTime", kTime, kRuntime},
    {"EagerOpExecuteTime", kTime, kRuntime},
}};
constexpr std::array<CounterRow, kCounterCount> kCounters{{
    {"UncachedCompile", kTracing},
    {"CachedCompile", kTracing},
    {"CreateCompileHandles", kRuntime},
    {"MarkStep", kRuntime},
    {"ExecuteComputation", kTracing},
    {"DeviceDataCacheMiss", kTracing},
    {"PersistentCacheHit", kTracing},
    {"PersistentCacheMiss", kTracing},
    {"PersistentCacheDeserializeFailure", kTracing},
    {"aten::_local_scalar_dense", kTracing},
}};

}  // namespace

const MetricRow& row_of(XlaMetric metric) {
  return kMetrics[static_cast<size_t>(metric)];
}

const CounterRow& row_of(XlaCounter counter) {
  return kCounters[static_cast<size_t>(counter)];
}

MetricGroup group_of(std::string_view name) {
  const auto has_name = [&](const auto& row) { return row.name == name; };
  if (const auto row = std::ranges::find_if(kMetrics, has_name); row != kMetrics.end()) return row->group;
  if (const auto row = std::ranges::find_if(kCounters, has_name); row != kCounters.end()) return row->group;
  return kTracing;
}

void MetricsRegistry::Series::add(MetricSample sample) {
  const std::lock_guard lock(mutex);
  if (ring.size() < kMetricRing) {
    ring.push_back(sample);
  } else {
    ring[static_cast<size_t>(count) % kMetricRing] = sample;
  }
  ++count;
  sum += sample.value;
}

void MetricsRegistry::Series::copy_to(MetricSnapshot& snapshot) const {
  const std::lock_guard lock(mutex);
  snapshot.count = count;
  snapshot.sum = sum;
  snapshot.ring = ring;
  if (ring.size() < kMetricRing) return;
  const auto oldest = static_cast<std::ptrdiff_t>(static_cast<size_t>(count) % kMetricRing);
  std::rotate(snapshot.ring.begin(), snapshot.ring.begin() + oldest, snapshot.ring.end());
}

MetricsRegistry::MetricsRegistry(std::vector<std::string> op_counters)
    : op_names_(std::move(op_counters)), op_counters_(op_names_.size()) {}

void MetricsRegistry::add(XlaMetric metric, int64_t value, int64_t at_ns) {
  series_[static_cast<size_t>(metric)].add({at_ns, value});
}

MetricsSnapshot MetricsRegistry::snapshot() const {
  MetricsSnapshot all;
  for (size_t i = 0; i < kMetricCount; ++i) {
    const MetricRow& row = kMetrics[i];
    MetricSnapshot& metric = all.metrics.emplace_back();
    metric.name = row.name;
    metric.kind = row.kind;
    series_[i].copy_to(metric);
  }
  for (size_t i = 0; i < kCounterCount; ++i) {
    all.counters.push_back({std::string(kCounters[i].name), value(static_cast<XlaCounter>(i))});
  }
  for (size_t i = 0; i < op_names_.size(); ++i) {
    all.counters.push_back({op_names_[i], op_counters_[i].load(std::memory_order_relaxed)});
  }
  return all;
}

}  // namespace runner::backends::tpu
