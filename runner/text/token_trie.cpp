#include "runner/text/token_trie.h"

#include <utility>

namespace runner::text {

FlatMap::FlatMap() : entries_(16), mask_(entries_.size() - 1) {}

uint64_t FlatMap::insert(uint64_t key, uint64_t value) {
  if (2 * (count_ + 1) > entries_.size()) grow();
  size_t at = start(key);
  for (; entries_[at].key != kNone; at = (at + 1) & mask_)
    if (entries_[at].key == key) return entries_[at].value;
  entries_[at] = {key, value};
  ++count_;
  return value;
}

void FlatMap::grow() {
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
  mask_ = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.key == kNone) continue;
    size_t at = start(entry.key);
    while (entries_[at].key != kNone) at = (at + 1) & mask_;
    entries_[at] = entry;
  }
}

int32_t TokenTrie::insert(std::string_view token, int32_t id) {
  uint64_t node = 0;
  for (const char byte : token) {
    const uint64_t child = edges_.insert(node << 8 | static_cast<uint8_t>(byte), ids_.size());
    if (child == ids_.size()) ids_.push_back(-1);
    node = child;
  }
  if (ids_[node] < 0) ids_[node] = id;
  return ids_[node];
}

int32_t TokenTrie::find(std::string_view token) const {
  uint64_t node = 0;
  for (const char byte : token) {
    node = next(node, byte);
    if (node == FlatMap::kNone) return -1;
  }
  return ids_[node];
}

TokenTrie::Match TokenTrie::longest_prefix(std::string_view text) const {
  Match match;
  uint64_t node = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    node = next(node, text[at]);
    if (node == FlatMap::kNone) break;
    if (ids_[node] >= 0) match = {ids_[node], at + 1};
  }
  return match;
}

}  // namespace runner::text
