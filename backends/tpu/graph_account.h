// What an emulated TPU has compiled and launched, counted as PyTorch/XLA counts it.
//
// A graph is found, or compiled, or taken from a store of compiled graphs; whoever adds one has described it, and says
// what it is predicted to cost.  Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/tpu/graph_cache.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics.h"

namespace runner::backends::tpu {

class GraphAccount {
 public:
  // `hardware` and `metrics` must outlive it; no `max_graphs`: any number may be compiled.
  GraphAccount(const Hardware& hardware, const ScalarRules& rules, DeviceMetrics& metrics,
               std::optional<int64_t> max_graphs)
      : hardware_(hardware), metrics_(metrics), max_graphs_(max_graphs), cache_(rules) {}

  const GraphCache& cache() const { return cache_; }

  // Null: it is none of these.  A hit is counted.
  Graph* find(const GraphKey& key, const GraphIdentity& identity);
  // All but the prediction, and why it is compiled.  `tensors`: what it is by tensors; `step`: at which it first runs.
  Graph described(const GraphKey& key, GraphIdentity identity, std::shared_ptr<const Program> tensors,
                  int64_t step) const;
  // Throws Error(kRun) where no further graph may be compiled, with why this one is, what it has taken since `begin_ns`
  // and what to do.  Nothing of it is counted.
  void check_budget(Graph& graph, int64_t begin_ns) const;
  // One that was compiled since `begin_ns`, whose time goes to `time`.  Checks the budget.
  Graph& add_compiled(Graph graph, Metric time, int64_t begin_ns);
  // One that a store had, after `ns`.
  Graph& add_stored(Graph graph, int64_t ns);
  void launch(Graph& graph);

 private:
  const Hardware& hardware_;
  DeviceMetrics& metrics_;
  const std::optional<int64_t> max_graphs_;
  GraphCache cache_;
};

}  // namespace runner::backends::tpu
