// The account of an eager TPU: operations that are looked up, compiled and counted one by one.
//
// PyTorch/XLA counts each as a graph of its own, with times under names of their own.  What a hook reads has run when
// the rest of its step comes, and is not run again.  Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/tpu/eager_ops.h"
#include "backends/tpu/graph_account.h"
#include "backends/tpu/run_analysis.h"

namespace runner::backends::tpu {

class EagerAccount {
 public:
  // All but `rules` must outlive it.
  EagerAccount(const Hardware& hardware, const ScalarRules& rules, GraphAccount& graphs, DeviceMetrics& metrics)
      : hardware_(hardware), rules_(rules), graphs_(graphs), metrics_(metrics) {}

  // What a graph has been run as, by what decides it beside the graph.
  class Seen;

  // The user's code begins anew: nothing of what it will have the device do has run.
  void begin_recording() { have_run_.clear(); }

  struct Run {
    int64_t step = 0;       // training batch
    bool reads = false;     // for a value that the hook waits for; the rest of the step is to come
    double traced_seconds;  // that the graph is predicted to take at least
  };
  // Finds or compiles the operations that the run of a graph has the device do.  `scalars`: by kScalar input of the
  // graph, NaN where no value is known; `host`: of the executable.  Throws Error(kRun) beyond the budget.
  void begin(const GraphIdentity& graph, std::span<const TracedScalar> scalars, const StateTensors& state_tensors,
             Seen& seen, std::span<const OpTimes> host, const Run& run);
  // The host has run it, up to an operation that may have failed: counts those that it has run.
  void end(std::span<const OpTimes> host);

  const EagerFigures& figures() const { return figures_; }

 private:
  // An operation of a recording: of equal ones one may have run, and another is to come.
  using Place = std::tuple<Origin, uint64_t, uint64_t>;
  static Place place_of(const EagerOp& op) { return {op.origin, op.key.hi, op.key.lo}; }

  struct Running {
    const EagerOp* op;
    Graph* graph;
  };

  BakedNumbers baked(std::span<const TracedScalar> scalars) const;
  Graph& graph_of(EagerOp& op, std::span<const OpTimes> host);
  Graph& compile(const EagerOp& op, int64_t host_ns);

  const Hardware& hardware_;
  const ScalarRules rules_;
  GraphAccount& graphs_;
  DeviceMetrics& metrics_;
  // Since begin().
  Run run_{};
  bool is_of_training_ = false;
  std::vector<Running> running_;
  std::map<Place, int64_t> have_run_;  // for values that were read of the recording under way, how often
  int64_t newest_update_ = 0;          // training batch
  EagerFigures figures_;
};

class EagerAccount::Seen {
 public:
  // Numbers are in it as the device has them.
  struct Key {
    BakedNumbers numbers;
    ScalarSignature signature;
    std::vector<int32_t> absent;
    bool operator==(const Key&) const = default;
  };
  // The step, made where there is none; it stays where it is until the next call.
  template <class Make>
  EagerStep& find_or_make(const Key& key, const Make& make) {
    const auto known = std::ranges::find(steps_, key, &std::pair<Key, EagerStep>::first);
    if (known != steps_.end()) {
      steps_.splice(steps_.begin(), steps_, known);
    } else {
      steps_.emplace_front(key, make());
      if (steps_.size() > kMostKept) steps_.pop_back();
    }
    return steps_.front().second;
  }

 private:
  static constexpr size_t kMostKept = 16;  // an exponent that never comes back makes a step each time

  std::list<std::pair<Key, EagerStep>> steps_;  // the newest first
};

}  // namespace runner::backends::tpu
