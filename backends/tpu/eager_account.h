// The account of an eager TPU: operations that are looked up, compiled and counted one by one.
//
// PyTorch/XLA counts each as a graph of its own, with times under names of their own.  What a hook reads has run when
// the rest of its step comes, and is not run again.  Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {

class EagerAccount {
 public:
  // All but `max_graphs` must outlive it.
  EagerAccount(const Hardware& hardware, const ScalarRules& rules, GraphCache& cache, DeviceMetrics& metrics,
               std::optional<int64_t> max_graphs)
      : hardware_(hardware), rules_(rules), cache_(cache), metrics_(metrics), max_graphs_(max_graphs) {}

  // What a graph has been run as, by what decides it beside the graph.
  class Seen;

  struct Run {
    int64_t step = 0;       // training batch
    bool reads = false;     // for a value that the hook waits for; the rest of the step is to come
    double traced_seconds;  // that the graph is predicted to take at least
  };
  // Compiles and counts what the run of a graph has the device do.  `scalars`: by kScalar input of the graph, NaN where
  // none is known; `host`: of the executable.  Throws Error(kRun) beyond the budget.
  void begin(const GraphIdentity& graph, std::span<const double> scalars, const StateTensors& state_tensors, Seen& seen,
             std::span<const OpTimes> host, const Run& run);
  // The host has run it.
  void end(std::span<const OpTimes> host);

  const EagerFigures& figures() const { return figures_; }

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  static Key key_of(const EagerOp& op) { return {op.key.hi, op.key.lo}; }
  BakedNumbers baked(std::span<const double> scalars) const;
  Graph& graph_of(EagerOp& op, const Run& run, std::span<const OpTimes> host);
  Graph& compile(const EagerOp& op, const Run& run, int64_t host_ns);

  const Hardware& hardware_;
  const ScalarRules rules_;
  GraphCache& cache_;
  DeviceMetrics& metrics_;
  const std::optional<int64_t> max_graphs_;
  std::vector<const EagerOp*> running_;  // since begin()
  std::map<Key, int64_t> have_run_;      // for values that were read of the step under way, how often
  EagerFigures figures_;
};

class EagerAccount::Seen {
 public:
  struct Key {
    BakedNumbers numbers;
    ScalarSignature signature;
    std::vector<int32_t> absent;
    bool operator==(const Key&) const = default;
  };
  // The step, made where there is none.
  template <class Make>
  EagerStep& find_or_make(const Key& key, const Make& make) {
    for (auto& [known, step] : steps_)
      if (known == key) return *step;
    steps_.emplace_back(key, std::make_unique<EagerStep>(make()));
    return *steps_.back().second;
  }

 private:
  std::vector<std::pair<Key, std::unique_ptr<EagerStep>>> steps_;
};

}  // namespace runner::backends::tpu
