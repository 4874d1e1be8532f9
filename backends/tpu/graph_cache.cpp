#include "backends/tpu/graph_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/tpu/miss_cause.h"

namespace runner::backends::tpu {
namespace {

constexpr size_t kCompared = 64;  // graphs compared to explain a miss: comparing takes longer than compiling

bool same(const GraphIdentity& a, const GraphIdentity& b) {
  return a.absent == b.absent && a.signature == b.signature && a.bookkeeping == b.bookkeeping &&
         (a.program == b.program || a.program->same_structure(*b.program));
}

}  // namespace

GraphKey key_of(const GraphIdentity& identity) {
  GraphKey key = identity.program->hash();
  for (const int64_t word : identity.signature) key.mix(static_cast<uint64_t>(word));
  key.mix(identity.absent.size());
  for (const int32_t state : identity.absent) key.mix(static_cast<uint64_t>(state));
  for (const bool is_bookkeeping : identity.bookkeeping) key.mix(is_bookkeeping);
  return key;
}

Graph* GraphCache::find(const GraphKey& key, const GraphIdentity& identity) {
  Graph** const known =
      used_.find(key.lo, [&](const Graph* graph) { return graph->key == key && same(graph->identity, identity); });
  if (known == nullptr) return nullptr;
  Graph* const found = *known;
  for (size_t i = 0; i < identity.scalars.size(); ++i)
    found->identity.scalars[i].value = identity.scalars[i].value;  // previous values, quoted when a miss is explained
  return found;
}

MissCause GraphCache::cause_of(const GraphIdentity& identity) const {
  if (was_evicted(key_of(identity))) return cause_of_eviction();
  std::vector<const GraphIdentity*> newest;
  for (const auto& used : used_.entries()) {
    if (newest.size() == kCompared) break;
    newest.push_back(&used.value->identity);
  }
  return cause_of_miss(identity, newest, rules_);
}

void GraphCache::explain(Graph& graph) const {
  if (graph.cause.text.empty()) graph.cause = cause_of(graph.identity);
}

Graph& GraphCache::add(Graph graph) {
  explain(graph);
  Graph& kept = compiled_.emplace_back(std::move(graph));
  used_.add(kept.key.lo, &kept, kept.identity.program->size(), [this](Graph* oldest) {
    evicted_.insert(oldest->key);
    oldest->identity = {};
  });
  if (kept.tensors != nullptr) limit_shown(kept);
  return kept;
}

// The first graphs keep their tensor graphs for good, later ones until enough newer ones exist.
void GraphCache::limit_shown(Graph& newest) {
  const auto is_full = [this](const ShownGraphs& shown) {
    return shown.graphs.size() > capacity_.shown_graphs || shown.nodes > capacity_.shown_nodes;
  };
  const auto add = [&](ShownGraphs& shown) {
    shown.graphs.push_back(&newest);
    shown.nodes += newest.tensors->size();
  };
  if (newest_.graphs.empty()) {
    add(first_);
    if (!is_full(first_)) return;
    first_.graphs.pop_back();
    first_.nodes -= newest.tensors->size();
  }
  add(newest_);
  while (is_full(newest_) && newest_.graphs.size() > 1) {
    Graph& oldest = *newest_.graphs.front();
    newest_.graphs.pop_front();
    newest_.nodes -= oldest.tensors->size();
    oldest.tensors = nullptr;
  }
}

}  // namespace runner::backends::tpu
