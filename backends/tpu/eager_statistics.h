// Statistics of an eager TPU: operations are looked up, compiled and counted one by one.
//
// PyTorch/XLA counts each operation as a graph of its own, with separate metric names for its times. Operations that
// already ran because a hook read a value are not run again with the rest of their step. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/runtime/lru_cache.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/graph_statistics.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {

class EagerStatistics {
 public:
  // `graphs` must outlive the object.
  explicit EagerStatistics(GraphStatistics& graphs) : graphs_(graphs) {}

  // The eager steps of one graph, keyed by everything else that determines them.
  class StepCache;

  // The user's code starts a new recording, of which no operation has run yet.
  void begin_recording() { have_run_.clear(); }

  struct Run {
    int64_t step = 0;       // training batch
    bool reads = false;     // runs what a hook's read needs; the rest of the step follows later
    double traced_seconds;  // predicted minimum time of the graph when traced
  };
  // Finds or compiles the operations that one execution of a graph runs. `scalars`: one per kScalar input of the graph,
  // NaN if the value is unknown. `host`: operations of the executable. Throws Error(kRun) if the graph budget is
  // exceeded.
  void begin(const GraphIdentity& graph, std::span<const TracedScalar> scalars, const StateTensors& state_tensors,
             StepCache& steps, std::span<const OpTimes> host, const Run& run);
  // Counts the operations that the host has run since begin(): all, or those before one that failed.
  void end(std::span<const OpTimes> host);

  const EagerFigures& figures() const { return figures_; }

 private:
  // Identifies equal operations of a recording, some of which may have run while others are still to run.
  using RecordedOp = std::tuple<Origin, uint64_t, uint64_t>;
  static RecordedOp recorded_op(const EagerOp& op) { return {op.origin, op.key.hi, op.key.lo}; }

  struct Running {
    const EagerOp* op;
    Graph* graph;
  };

  BakedNumbers baked(std::span<const TracedScalar> scalars) const;
  Graph& graph_of(EagerOp& op, std::span<const OpTimes> host);
  Graph& compile(const EagerOp& op, int64_t host_ns);

  GraphStatistics& graphs_;
  // Set by begin().
  Run run_{};
  bool is_of_training_ = false;
  std::vector<Running> running_;
  std::map<RecordedOp, int64_t> have_run_;  // how many equal operations of the current recording ran for reads
  int64_t newest_update_ = 0;               // training batch
  EagerFigures figures_;
};

class EagerStatistics::StepCache {
 public:
  // Numbers are stored as the device represents them.
  struct Key {
    BakedNumbers numbers;
    ScalarSignature signature;
    std::vector<int32_t> absent;
    bool operator==(const Key&) const = default;
  };
  // Returns the step for `key`, calling `make` if there is none. The reference is valid until the next call.
  template <class Make>
  EagerStep& find_or_make(const Key& key, const Make& make) {
    using Entry = std::pair<Key, EagerStep>;
    Entry* const known = steps_.find(hash_of(key), [&](const Entry& entry) { return entry.first == key; });
    return (known != nullptr ? *known : steps_.add(hash_of(key), {key, make()}, /*weight=*/0)).second;
  }

 private:
  static constexpr size_t kMaxKept = 16;  // a power whose exponent never repeats adds an entry each time

  static uint64_t hash_of(const Key& key) {
    ProgramHash hash;
    for (const int64_t word : key.signature) hash.mix(static_cast<uint64_t>(word));
    for (const int32_t state : key.absent) hash.mix(static_cast<uint64_t>(state));
    return hash.lo;
  }

  LruCache<std::pair<Key, EagerStep>> steps_{{.values = kMaxKept, .weight = 0}};
};

}  // namespace runner::backends::tpu
