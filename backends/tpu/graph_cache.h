// The compile cache of an emulated TPU: graphs by a key of 128 bits, as PyTorch/XLA finds them.
//
// The key covers the traced Program, roots included, which numbers are baked into it or equal (scalar_signature.h), and
// which states it makes itself because they do not exist yet.  What is found is compared, never trusted to the key.
// Beyond its capacity, in graphs or in nodes, the graph that was used longest ago is forgotten, and compiled again when
// it comes back.  What a table says of a graph stays; its tensors, which its texts are made of, stay with the first and
// the newest graphs.  Not thread-safe.
#pragma once

#include <deque>
#include <list>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "backends/tpu/graph.h"
#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {

GraphKey key_of(const GraphIdentity& identity);

class GraphCache {
 public:
  // `rules`: by which the signatures of the graphs were made, for causes.
  struct Capacity {
    size_t graphs = 2048;
    int64_t nodes = 500'000;
    size_t shown_graphs = 64;       // of the first, and of the newest
    int64_t shown_nodes = 100'000;  // of either
  };
  explicit GraphCache(const ScalarRules& rules = {}) : GraphCache(rules, Capacity()) {}
  GraphCache(const ScalarRules& rules, const Capacity& capacity) : rules_(rules), capacity_(capacity) {}

  // Null: it must be compiled.
  Graph* find(const GraphKey& key, const GraphIdentity& identity);
  // Why there is no such graph: in what it differs from the nearest of those that were used last.
  MissCause cause_of(const GraphIdentity& identity) const;
  // Whether it had been there.
  bool has_forgotten(const GraphKey& key) const { return forgotten_.contains(key); }
  // Gives a graph its cause unless it has one, which is found before it is among the others.
  void explain(Graph& graph) const;
  // Keeps a graph, and explains it.
  Graph& add(Graph graph);

  // All that have ever been compiled, in order; they stay where they are.
  const std::deque<Graph>& compiled() const { return compiled_; }

 private:
  void forget_oldest();
  void limit_shown(Graph& newest);

  struct KeyHash {
    size_t operator()(const GraphKey& key) const { return key.lo; }
  };

  const ScalarRules rules_;
  const Capacity capacity_;
  int64_t nodes_ = 0;  // of those that are found
  std::deque<Graph> compiled_;
  struct Shown {
    std::deque<Graph*> graphs;
    int64_t nodes = 0;
  } first_, newest_;        // that have tensors; in order
  std::list<Graph*> used_;  // the newest first
  std::unordered_multimap<GraphKey, std::list<Graph*>::iterator, KeyHash> entries_;
  std::unordered_set<GraphKey, KeyHash> forgotten_;
};

}  // namespace runner::backends::tpu
