// What a device counts and times, under PyTorch/XLA's names.
//
// The names are the rows of two tables; to count is to index one, never to look a name up.  A counter is an atomic
// number, and a metric (all-time count and sum, and a ring of its last samples) has a lock of its own, which is free
// but for the rare moment at which two threads move the same metric. Thread safety: any thread may count, add and take
// a snapshot at any time.  Each entry of a snapshot is consistent in itself; entries agree with each other where
// nothing is in flight (behind a step marker that waited).
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

enum class Metric : uint8_t {
  kCompileTime,            // passes, plan and executable of a graph that no cache has
  kExecuteTime,            // from launch to the device's completion
  kDeviceLockWait,         // at a sync: until the execution before it has freed the device
  kTensorsGraphSize,       // nodes of a synced graph
  kInputOutputAliasCount,  // per compile: donated inputs
  kTransferToDeviceTime,
  kTransferFromDeviceTime,
  kOutboundData,  // host -> device, as the device stores it
  kInboundData,   // device -> host, likewise
  kTensorToData,  // host tensor -> device data
  kLazyTracing,
  kPersistentCacheLoad,
  kEagerOpCompileTime,  // of an operation that runs alone, as kCompileTime
  kEagerOpExecuteTime,
};
inline constexpr size_t kMetricCount = static_cast<size_t>(Metric::kEagerOpExecuteTime) + 1;

enum class Counter : uint8_t {
  kUncachedCompile,       // per sync of a graph: it was not in the cache
  kCachedCompile,         // it was
  kCreateCompileHandles,  // compiled programs
  kMarkStep,
  kExecuteComputation,   // launches
  kDeviceDataCacheMiss,  // scalars that were uploaded
  kPersistentCacheHit,
  kPersistentCacheMiss,
  kPersistentCacheDeserializeFailure,  // what it had was damaged
  kLocalScalarDense,                   // scalars that were read, as tensor:item() does
};
inline constexpr size_t kCounterCount = static_cast<size_t>(Counter::kLocalScalarDense) + 1;

// PyTorch/XLA keeps two registries, and its report prints one behind the other.
enum class MetricGroup : uint8_t {
  kTracing,  // of the tensors that are traced (torch.lazy)
  kRuntime,  // of the client that compiles, executes and transfers
};

struct MetricRow {
  std::string_view name;
  MetricKind kind;
  MetricGroup group;
};
const MetricRow& row_of(Metric metric);

struct CounterRow {
  std::string_view name;
  MetricGroup group;
};
const CounterRow& row_of(Counter counter);

// Of a metric or a counter; names that are in no table are of tracing, as the counters of ops are.
MetricGroup group_of(std::string_view name);

class DeviceMetrics {
 public:
  // op_counters: the names that count_op() counts under, such as "xla::add", by index.
  explicit DeviceMetrics(std::vector<std::string> op_counters = {});

  void count(Counter counter, int64_t times = 1) {
    counters_[static_cast<size_t>(counter)].fetch_add(times, std::memory_order_relaxed);
  }
  void count_op(size_t op, int64_t times = 1) { op_counters_[op].fetch_add(times, std::memory_order_relaxed); }
  // value: in the unit of the metric's kind.
  void add(Metric metric, int64_t value, int64_t at_ns = monotonic_ns());

  int64_t value(Counter counter) const {
    return counters_[static_cast<size_t>(counter)].load(std::memory_order_relaxed);
  }
  MetricsSnapshot snapshot() const;

 private:
  struct Series {
    mutable std::mutex mutex;  // guards what follows
    int64_t count = 0, sum = 0;
    std::vector<MetricSample> ring;  // the oldest is at count % kMetricRing once it is full

    void add(MetricSample sample);
    void copy_to(MetricSnapshot& snapshot) const;
  };

  std::array<Series, kMetricCount> series_;
  std::array<std::atomic<int64_t>, kCounterCount> counters_{};
  const std::vector<std::string> op_names_;
  std::vector<std::atomic<int64_t>> op_counters_;
};

// Adds to a metric of times how long it lived.
class TimedSection {
 public:
  TimedSection(DeviceMetrics& metrics, Metric metric) : metrics_(metrics), metric_(metric) {}
  ~TimedSection() {
    const int64_t end_ns = monotonic_ns();
    metrics_.add(metric_, end_ns - begin_ns_, end_ns);
  }
  TimedSection(const TimedSection&) = delete;
  TimedSection& operator=(const TimedSection&) = delete;

 private:
  DeviceMetrics& metrics_;
  const Metric metric_;
  const int64_t begin_ns_ = monotonic_ns();
};

}  // namespace runner::backends::tpu
