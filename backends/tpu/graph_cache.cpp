#include "backends/tpu/graph_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

namespace runner::backends::tpu {
namespace {

void mix(GraphKey& key, uint64_t word) {
  key.lo = std::rotl(key.lo ^ (word * 0x87c37b91114253d5ull), 27) * 5 + 0x52dce729u;
  key.hi = std::rotl(key.hi ^ (word * 0x4cf5ad432745937full), 31) * 5 + 0x38495ab5u;
  key.hi += key.lo;
}

bool same(const GraphIdentity& a, const GraphIdentity& b) {
  return a.absent == b.absent && a.signature == b.signature &&
         (a.program == b.program || a.program->same_structure(*b.program));
}

}  // namespace

std::string GraphKey::to_string() const {
  return fmt::format("{:016x}{:016x}", hi, lo);
}

GraphKey key_of(const GraphIdentity& identity) {
  const ProgramHash hash = identity.program->hash();
  GraphKey key{hash.hi, hash.lo};
  for (const int64_t word : identity.signature) mix(key, static_cast<uint64_t>(word));
  mix(key, identity.absent.size());
  for (const int32_t state : identity.absent) mix(key, static_cast<uint64_t>(state));
  return key;
}

Graph* GraphCache::find(const GraphKey& key, const GraphIdentity& identity) {
  const auto [first, last] = entries_.equal_range(key);
  const auto entry =
      std::find_if(first, last, [&](const auto& each) { return same((*each.second)->identity, identity); });
  if (entry == last) return nullptr;
  used_.splice(used_.begin(), used_, entry->second);
  return *entry->second;
}

MissCause GraphCache::cause_of(const GraphIdentity& identity) const {
  return cause_of_miss(identity, compiled_, rules_);
}

Graph& GraphCache::add(Graph graph) {
  if (graph.kind != MissKind::kStored) {
    MissCause cause = cause_of(graph.identity);
    graph.kind = cause.kind;
    graph.cause = std::move(cause.text);
    graph.line = std::move(cause.line);
  }
  compiled_.push_back(std::move(graph));
  used_.push_front(&compiled_.back());
  entries_.emplace(used_.front()->key, used_.begin());
  if (used_.size() > capacity_) {
    const auto [first, last] = entries_.equal_range(used_.back()->key);
    entries_.erase(std::find_if(first, last, [&](const auto& each) { return *each.second == used_.back(); }));
    used_.pop_back();
  }
  return compiled_.back();
}

}  // namespace runner::backends::tpu
