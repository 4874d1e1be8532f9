#include "backends/tpu/graph_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

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
  const auto [first, last] = entries_.equal_range(key);
  const auto entry =
      std::find_if(first, last, [&](const auto& each) { return same((*each.second)->identity, identity); });
  if (entry == last) return nullptr;
  used_.splice(used_.begin(), used_, entry->second);
  Graph* const found = *entry->second;
  for (size_t i = 0; i < identity.scalars.size(); ++i)
    found->identity.scalars[i].value = identity.scalars[i].value;  // previous values, quoted when a miss is explained
  return found;
}

MissCause GraphCache::cause_of(const GraphIdentity& identity) const {
  if (was_evicted(key_of(identity))) return cause_of_eviction();
  std::vector<const GraphIdentity*> newest;
  for (const Graph* const graph : used_) {
    if (newest.size() == kCompared) break;
    newest.push_back(&graph->identity);
  }
  return cause_of_miss(identity, newest, rules_);
}

void GraphCache::explain(Graph& graph) const {
  if (graph.cause.text.empty()) graph.cause = cause_of(graph.identity);
}

Graph& GraphCache::add(Graph graph) {
  explain(graph);
  Graph& kept = compiled_.emplace_back(std::move(graph));
  used_.push_front(&kept);
  entries_.emplace(kept.key, used_.begin());
  nodes_ += kept.identity.program->size();
  while (used_.size() > 1 && (used_.size() > capacity_.graphs || nodes_ > capacity_.nodes)) evict_oldest();
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

void GraphCache::evict_oldest() {
  Graph* const oldest = used_.back();
  const auto [first, last] = entries_.equal_range(oldest->key);
  entries_.erase(std::find_if(first, last, [&](const auto& each) { return *each.second == oldest; }));
  used_.pop_back();
  nodes_ -= oldest->identity.program->size();
  evicted_.insert(oldest->key);
  oldest->identity = {};
}

}  // namespace runner::backends::tpu
