// Compile cache of an emulated TPU: graphs by a 128-bit key, as in PyTorch/XLA.
//
// The key covers:
//
// - the traced Program with its outputs;
// - the scalars that are baked into it or equal to each other (scalar_signature.h);
// - the absent states that it creates itself;
// - which nodes are bookkeeping.
//
// A hit is verified by comparison, never by the key alone. Beyond the capacity in graphs or nodes, the least recently
// used graph is evicted, and compiled again when it returns. The figures of every graph are kept. The tensor graphs, of
// which its texts are printed, are kept only for the first and the newest graphs. Not thread-safe.
#pragma once

#include <deque>
#include <unordered_set>

#include "backends/runtime/lru_cache.h"
#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

GraphKey key_of(const GraphIdentity& identity);

class GraphCache {
 public:
  // `rules`: rules that the graphs' signatures were made by; used to explain misses.
  struct Capacity {
    size_t graphs = 2048;
    int64_t nodes = 500'000;
    size_t shown_graphs = 64;       // kept tensor graphs: this many of the first and of the newest graphs
    int64_t shown_nodes = 100'000;  // limit for each of the two
  };
  explicit GraphCache(const ScalarRules& rules = {}) : GraphCache(rules, Capacity()) {}
  GraphCache(const ScalarRules& rules, const Capacity& capacity)
      : rules_(rules), capacity_(capacity), used_({capacity.graphs, capacity.nodes}) {}

  // Returns null if the graph must be compiled.
  Graph* find(const GraphKey& key, const GraphIdentity& identity);
  // Explains a miss: how the graph differs from the nearest of the recently used graphs.
  MissCause cause_of(const GraphIdentity& identity) const;
  // Whether the graph was evicted.
  bool was_evicted(const GraphKey& key) const { return evicted_.contains(key); }
  // Sets the cause of a graph that has none. Call it before the graph is added, since it is compared with the others.
  void explain(Graph& graph) const;
  // Adds a graph and explains it.
  Graph& add(Graph graph);

  const ScalarRules& rules() const { return rules_; }
  // All graphs ever compiled, in order. References stay valid.
  const std::deque<Graph>& compiled() const { return compiled_; }

 private:
  void limit_shown(Graph& newest);

  struct KeyHash {
    size_t operator()(const GraphKey& key) const { return key.lo; }
  };

  const ScalarRules rules_;
  const Capacity capacity_;
  std::deque<Graph> compiled_;
  struct ShownGraphs {
    std::deque<Graph*> graphs;
    int64_t nodes = 0;
  } first_, newest_;  // graphs that have a tensor graph, in order
  LruCache<Graph*> used_;
  std::unordered_set<GraphKey, KeyHash> evicted_;
};

}  // namespace runner::backends::tpu
