// Cache by hash that evicts the least recently used values. The caller tells values of equal hash apart.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <unordered_map>
#include <utility>

namespace runner::backends {

template <class Value>
class LruCache {
 public:
  // The newest value stays even if it exceeds the weight alone.
  struct Capacity {
    size_t values;
    int64_t weight;
  };
  explicit LruCache(const Capacity& capacity) : capacity_(capacity) {}

  // Returns the value of this hash for which `is_it` returns true, now the most recently used one, or null. `is_it` is
  // called for values of this hash only.
  template <class Is>
  Value* find(uint64_t hash, const Is& is_it) {
    const auto [first, last] = by_hash_.equal_range(hash);
    const auto found = std::find_if(first, last, [&](const auto& each) { return is_it(each.second->value); });
    if (found == last) return nullptr;
    used_.splice(used_.begin(), used_, found->second);
    return &used_.front().value;
  }

  // Adds a value. Evicts others until the capacity suffices, after `on_evict(value)`. The reference is valid until the
  // value is evicted.
  template <class OnEvict>
  Value& add(uint64_t hash, Value value, int64_t weight, const OnEvict& on_evict) {
    used_.push_front({hash, weight, std::move(value)});
    by_hash_.emplace(hash, used_.begin());
    weight_ += weight;
    while (used_.size() > 1 && (used_.size() > capacity_.values || weight_ > capacity_.weight)) {
      on_evict(used_.back().value);
      evict_oldest();
    }
    return used_.front().value;
  }
  Value& add(uint64_t hash, Value value, int64_t weight) {
    return add(hash, std::move(value), weight, [](const Value&) {});
  }

  // Most recently used first.
  struct Entry {
    uint64_t hash;
    int64_t weight;
    Value value;
  };
  const std::list<Entry>& entries() const { return used_; }

 private:
  void evict_oldest() {
    const auto oldest = std::prev(used_.end());
    const auto [first, last] = by_hash_.equal_range(oldest->hash);
    by_hash_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == oldest; }));
    weight_ -= oldest->weight;
    used_.pop_back();
  }

  const Capacity capacity_;
  int64_t weight_ = 0;
  std::list<Entry> used_;
  std::unordered_multimap<uint64_t, typename std::list<Entry>::iterator> by_hash_;
};

}  // namespace runner::backends
