// Cache of compiled steps, keyed by recorded Program and specification of the step.
//
// A hit skips differentiation, passes and compilation. It is verified against the recorded Program, never by the hash
// alone. Source lines are not compared, so submit with the lines of the current recording (Submission::lines). Beyond
// the capacity in steps or nodes, the least recently used step is evicted. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/program.h"
#include "backends/runtime/spans.h"

namespace runner::backends {

// What is done with the recorded forward Program: which values are differentiated, accumulated, clipped and updated,
// and how. Any encoding works if equal words mean equal steps.
using StepSpecification = std::vector<int64_t>;

struct PlanCacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t collisions = 0;  // equal keys of different Programs
};

inline uint64_t plan_key(const Program& recorded) {
  return recorded.hash().lo;
}

// `key_of`: replaced only in tests.
template <class Compiled, uint64_t (*key_of)(const Program&) = plan_key>
class PlanCache {
 public:
  struct Capacity {
    size_t steps = 1024;
    int64_t nodes = 500'000;  // of the recorded Programs
  };
  PlanCache() : PlanCache(Capacity()) {}
  explicit PlanCache(const Capacity& capacity) : capacity_(capacity) {}

  // Returns the cached step, or calls `make` and caches its result. The reference is valid until the step is evicted.
  template <class Make>
  Compiled& find_or_make(const Program& recorded, const StepSpecification& step, const Make& make) {
    const uint64_t key = key_of(recorded);
    const auto [first, last] = entries_.equal_range(key);
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second->step != step) continue;
      if (entry->second->recorded->same_structure(recorded)) {
        ++counters_.hits;
        used_.splice(used_.begin(), used_, entry->second);
        return used_.front().compiled;
      }
      ++counters_.collisions;
    }
    ++counters_.misses;
    const std::string name = fmt::format("{:016x}", key);
    const ScopedSpan span(SpanKind::kCompile, "compile", {.what = name});
    used_.push_front({key, std::make_shared<const Program>(recorded), step, make()});
    entries_.emplace(key, used_.begin());
    nodes_ += recorded.size();
    while (used_.size() > 1 && (used_.size() > capacity_.steps || nodes_ > capacity_.nodes)) evict_oldest();
    return used_.front().compiled;
  }

  // Recorded Program of the step that was returned last, as it was when the step was compiled.
  const std::shared_ptr<const Program>& newest_recorded() const { return used_.front().recorded; }

  const PlanCacheCounters& counters() const { return counters_; }

 private:
  struct Entry {
    uint64_t key;
    std::shared_ptr<const Program> recorded;
    StepSpecification step;
    Compiled compiled;
  };
  using Used = std::list<Entry>;

  void evict_oldest() {
    const auto oldest = std::prev(used_.end());
    const auto [first, last] = entries_.equal_range(oldest->key);
    entries_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == oldest; }));
    nodes_ -= oldest->recorded->size();
    used_.pop_back();
  }

  const Capacity capacity_;
  int64_t nodes_ = 0;
  Used used_;  // most recently used first
  std::unordered_multimap<uint64_t, typename Used::iterator> entries_;
  PlanCacheCounters counters_;
};

}  // namespace runner::backends
