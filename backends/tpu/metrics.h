// Metrics and counters of a device, under PyTorch/XLA's names.
//
// The names are rows of two tables; counting indexes an array and never looks up a name. A counter is an atomic
// integer. A metric keeps the total count and sum and a ring of the latest samples under a lock of its own, which is
// uncontended unless two threads add to the same metric. Thread safety: any thread may count, add and take a snapshot
// at any time. Each entry of a snapshot is consistent in itself; entries are consistent with each other if nothing is
// in flight (after a step marker that waited).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/spans.h"
#include "backends/tpu/metrics_snapshot.h"

namespace runner::backends::tpu {

enum class XlaMetric : uint8_t {
  kCompileTime,            // passes, plan and executable of a graph that is in no cache
  kExecuteTime,            // from launch to completion on the device
  kDeviceLockWait,         // at a sync: until the previous execution has released the device
  kTensorsGraphSize,       // nodes of a synced graph
  kInputOutputAliasCount,  // donated inputs, per compilation
  kTransferToDeviceTime,
  kTransferFromDeviceTime,
  kOutboundData,  // host to device, bytes as the device stores them
  kInboundData,   // device to host, likewise
  kTensorToData,  // host tensor to device data
  kLazyTracing,
  kPersistentCacheLoad,
  kEagerOpCompileTime,  // kCompileTime of an operation that runs alone
  kEagerOpExecuteTime,
};
inline constexpr size_t kMetricCount = static_cast<size_t>(XlaMetric::kEagerOpExecuteTime) + 1;

enum class XlaCounter : uint8_t {
  kUncachedCompile,       // cache misses, per sync of a graph
  kCachedCompile,         // cache hits
  kCreateCompileHandles,  // compiled programs
  kMarkStep,
  kExecuteComputation,   // launches
  kDeviceDataCacheMiss,  // scalars that were uploaded
  kPersistentCacheHit,
  kPersistentCacheMiss,
  kPersistentCacheDeserializeFailure,  // entries that were damaged
  kLocalScalarDense,                   // scalars read by the host, as by tensor.item()
};
inline constexpr size_t kCounterCount = static_cast<size_t>(XlaCounter::kLocalScalarDense) + 1;

// PyTorch/XLA keeps two registries and prints one after the other in its report.
enum class MetricGroup : uint8_t {
  kTracing,  // traced tensors (torch.lazy)
  kRuntime,  // the client that compiles, executes and transfers
};

struct MetricRow {
  std::string_view name;
  MetricKind kind;
  MetricGroup group;
};
const MetricRow& row_of(XlaMetric metric);

struct CounterRow {
  std::string_view name;
  MetricGroup group;
};
const CounterRow& row_of(XlaCounter counter);

// Group of a metric or counter. Names in neither table, such as op counters, are kTracing.
MetricGroup group_of(std::string_view name);

class MetricsRegistry {
 public:
  // `op_counters`: names of the counters of count_op(), by index, such as "xla::add".
  explicit MetricsRegistry(std::vector<std::string> op_counters = {});

  void count(XlaCounter counter, int64_t times = 1) {
    counters_[static_cast<size_t>(counter)].fetch_add(times, std::memory_order_relaxed);
  }
  void count_op(size_t op, int64_t times = 1) { op_counters_[op].fetch_add(times, std::memory_order_relaxed); }
  // `value`: in the unit of the metric's kind.
  void add(XlaMetric metric, int64_t value, int64_t at_ns = monotonic_ns());

  int64_t value(XlaCounter counter) const {
    return counters_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  MetricsSnapshot snapshot() const;

 private:
  struct Series {
    mutable std::mutex mutex;  // guards the members below
    int64_t count = 0, sum = 0;
    std::vector<MetricSample> ring;  // once full, the oldest sample is at count % kMetricRing

    void add(MetricSample sample);
    void copy_to(MetricSnapshot& snapshot) const;
  };

  std::array<Series, kMetricCount> series_;
  std::array<std::atomic<int64_t>, kCounterCount> counters_{};
  const std::vector<std::string> op_names_;
  std::vector<std::atomic<int64_t>> op_counters_;
};

// Adds the lifetime of the object to a time metric.
class TimedSection {
 public:
  TimedSection(MetricsRegistry& metrics, XlaMetric metric) : metrics_(metrics), metric_(metric) {}
  ~TimedSection() {
    const int64_t end_ns = monotonic_ns();
    metrics_.add(metric_, end_ns - begin_ns_, end_ns);
  }
  TimedSection(const TimedSection&) = delete;
  TimedSection& operator=(const TimedSection&) = delete;

 private:
  MetricsRegistry& metrics_;
  const XlaMetric metric_;
  const int64_t begin_ns_ = monotonic_ns();
};

}  // namespace runner::backends::tpu
