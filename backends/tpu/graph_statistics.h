// Graphs that an emulated TPU has compiled and launched, counted as PyTorch/XLA counts them.
//
// A graph is found, compiled, or loaded from a store of compiled graphs. The caller that adds a graph supplies its
// description and prediction. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "backends/tpu/graph_cache.h"
#include "backends/tpu/lowered_graph.h"
#include "backends/tpu/metrics.h"

namespace runner::backends::tpu {

class GraphStatistics {
 public:
  // `hardware` and `metrics` must outlive the object. `max_graphs`: number of graphs that may be compiled; none for no
  // limit.
  GraphStatistics(const Hardware& hardware, const ScalarRules& rules, MetricsRegistry& metrics,
                  std::optional<int64_t> max_graphs, const ShortBatches& short_batches)
      : hardware_(hardware), metrics_(metrics), max_graphs_(max_graphs), short_batches_(short_batches), cache_(rules) {}

  const Hardware& hardware() const { return hardware_; }
  MetricsRegistry& metrics() const { return metrics_; }
  const GraphCache& cache() const { return cache_; }

  // Returns the graph and counts a cache hit, or null if it is not in the cache.
  Graph* find(const GraphKey& key, const GraphIdentity& identity);
  // Returns a graph without prediction and cause of compilation. `tensors`: its tensor graph; `step`: training batch at
  // which it first runs.
  Graph described(const GraphKey& key, GraphIdentity identity, std::shared_ptr<const Program> tensors,
                  int64_t step) const;
  // Throws Error(kRun) if no further graph may be compiled; the message has the cause, the time since `begin_ns` and
  // advice. Counts nothing.
  void check_budget(Graph& graph, int64_t begin_ns) const;
  // Adds a graph compiled since `begin_ns`; its compile time is added to metric `time`. Checks the budget.
  Graph& add_compiled(Graph graph, XlaMetric time, int64_t begin_ns);
  // Adds a graph that was loaded from a store in `ns`.
  Graph& add_stored(Graph graph, int64_t ns);
  void launch(Graph& graph);

 private:
  const Hardware& hardware_;
  MetricsRegistry& metrics_;
  const std::optional<int64_t> max_graphs_;
  const ShortBatches short_batches_;
  GraphCache cache_;
};

}  // namespace runner::backends::tpu
