// Cache of compiled steps, keyed by recorded Program and specification of the step.
//
// A hit skips differentiation, passes and compilation. It is verified against the recorded Program, never by the hash
// alone. Source lines are not compared, so submit with the lines of the current recording (Submission::lines). Beyond
// the capacity in steps or nodes, the least recently used step is evicted. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/ir/program.h"
#include "backends/runtime/lru_cache.h"
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
  explicit PlanCache(const Capacity& capacity) : steps_({capacity.steps, capacity.nodes}) {}

  // Returns the cached step, or calls `make` and caches its result. The reference is valid until the step is evicted.
  template <class Make>
  Compiled& find_or_make(const Program& recorded, const StepSpecification& step, const Make& make) {
    const uint64_t key = key_of(recorded);
    Entry* const known = steps_.find(key, [&](const Entry& entry) {
      if (entry.step != step) return false;
      const bool is_same = entry.recorded->same_structure(recorded);
      counters_.collisions += !is_same;
      return is_same;
    });
    if (known != nullptr) {
      ++counters_.hits;
      return known->compiled;
    }
    ++counters_.misses;
    const std::string name = fmt::format("{:016x}", key);
    const ScopedSpan span(SpanKind::kCompile, "compile", {.what = name});
    return steps_.add(key, {std::make_shared<const Program>(recorded), step, make()}, recorded.size()).compiled;
  }

  // Recorded Program of the step that was returned last, as it was when the step was compiled.
  const std::shared_ptr<const Program>& newest_recorded() const { return steps_.entries().front().value.recorded; }

  const PlanCacheCounters& counters() const { return counters_; }

 private:
  struct Entry {
    std::shared_ptr<const Program> recorded;
    StepSpecification step;
    Compiled compiled;
  };

  LruCache<Entry> steps_;
  PlanCacheCounters counters_;
};

}  // namespace runner::backends
