#include "backends/tpu/graph_statistics.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/runtime/spans.h"
#include "backends/tpu/miss_cause.h"
#include "backends/tpu/tensor_graph.h"
#include "schema/base/duration.h"
#include "schema/base/error.h"

namespace runner::backends::tpu {

Graph* GraphStatistics::find(const GraphKey& key, const GraphIdentity& identity) {
  Graph* const known = cache_.find(key, identity);
  if (known != nullptr) metrics_.count(XlaCounter::kCachedCompile);
  return known;
}

Graph GraphStatistics::described(const GraphKey& key, GraphIdentity identity, std::shared_ptr<const Program> tensors,
                                 int64_t step) const {
  Graph graph(role_of(*identity.program));
  graph.key = key;
  graph.identity = std::move(identity);
  graph.evaluates = graph.identity.evaluates;
  graph.first_step = step;
  graph.types = hardware_.types;
  graph.size = size_of(*tensors);
  graph.work = traced_work(*tensors, hardware_.types);
  graph.tensors = std::move(tensors);
  return graph;
}

Graph& GraphStatistics::add_compiled(Graph graph, XlaMetric time, int64_t begin_ns) {
  check_budget(graph, begin_ns);
  metrics_.count(XlaCounter::kUncachedCompile);
  Graph& kept = cache_.add(std::move(graph));
  metrics_.count(XlaCounter::kCreateCompileHandles);
  metrics_.add(XlaMetric::kInputOutputAliasCount, kept.size.donated);
  kept.compile_ns = monotonic_ns() - begin_ns;
  metrics_.add(time, kept.compile_ns);
  return kept;
}

void GraphStatistics::check_budget(Graph& graph, int64_t begin_ns) const {
  const int64_t needed = metrics_.value(XlaCounter::kUncachedCompile) + 1;
  if (!max_graphs_ || needed <= *max_graphs_) return;
  const int64_t ns = monotonic_ns() - begin_ns;
  cache_.explain(graph);
  const std::string_view advice = advice_for(graph, short_batches_);
  throw Error(
      ErrorKind::kRun,
      fmt::format("training batch {} needs graph {}, but tpu.max_graphs is {}: {}; it took {} to "
                  "compile; {}increase tpu.max_graphs to allow it",
                  graph.first_step, needed, *max_graphs_, graph.cause.text,
                  duration_text(static_cast<double>(ns) * 1e-9), advice.empty() ? "" : fmt::format("{}; ", advice)),
      graph.cause.line);
}

Graph& GraphStatistics::add_stored(Graph graph, int64_t ns) {
  graph.cause = {"loaded from the persistent cache", {}, MissKind::kStored};
  metrics_.count(XlaCounter::kCachedCompile);
  metrics_.count(XlaCounter::kPersistentCacheHit);
  metrics_.add(XlaMetric::kPersistentCacheLoad, ns);
  return cache_.add(std::move(graph));
}

void GraphStatistics::launch(Graph& graph) {
  count(graph.work, metrics_);
  metrics_.add(XlaMetric::kTensorsGraphSize, graph.size.nodes);
  metrics_.count(XlaCounter::kExecuteComputation);
  ++graph.executions;
}

}  // namespace runner::backends::tpu
