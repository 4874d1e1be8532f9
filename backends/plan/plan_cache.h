// Finds what was compiled before: executables by (recorded Program, specification of the step).
//
// A step that is found skips differentiation, passes and compilation.  A hit is verified against the recorded Program,
// never trusted to the hash.  Source lines are not compared: submit with the lines of the recording at hand
// (Arguments::lines).  Beyond its capacity, in steps or in nodes, the step that was used longest ago is forgotten.  Not
// thread-safe.
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

// What is done with the recorded forward Program: which value is differentiated, accumulated, clipped, updated, how.
// Any encoding will do, as long as equal words mean equal steps.
using StepSpecification = std::vector<int64_t>;

struct PlanCacheCounters {
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t collisions = 0;  // equal keys of different Programs
};

inline uint64_t plan_key(const Program& recorded) {
  return recorded.hash().lo;
}

// `key_of` is another one in tests alone.
template <class Compiled, uint64_t (*key_of)(const Program&) = plan_key>
class PlanCache {
 public:
  struct Capacity {
    size_t steps = 1024;
    int64_t nodes = 500'000;  // of what was recorded
  };
  PlanCache() : PlanCache(Capacity()) {}
  explicit PlanCache(const Capacity& capacity) : capacity_(capacity) {}

  // The compiled step, or what `make()` returns, kept from now on; it stays where it is until it is forgotten.
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
    while (used_.size() > 1 && (used_.size() > capacity_.steps || nodes_ > capacity_.nodes)) forget_oldest();
    return used_.front().compiled;
  }

  // What was found or made last, as it was recorded when it was made.
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

  void forget_oldest() {
    const auto oldest = std::prev(used_.end());
    const auto [first, last] = entries_.equal_range(oldest->key);
    entries_.erase(std::find_if(first, last, [&](const auto& each) { return each.second == oldest; }));
    nodes_ -= oldest->recorded->size();
    used_.pop_back();
  }

  const Capacity capacity_;
  int64_t nodes_ = 0;
  Used used_;  // the newest first
  std::unordered_multimap<uint64_t, typename Used::iterator> entries_;
  PlanCacheCounters counters_;
};

}  // namespace runner::backends
