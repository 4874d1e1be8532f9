// Finds what was compiled before: executables by (recorded Program, specification of the step).
//
// A step that is found skips differentiation, passes and compilation.  A hit is verified against the recorded Program,
// never trusted to the hash.  Source lines are not compared: submit with the lines of the recording at hand
// (Arguments::lines).  Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "backends/graph/program.h"
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
  // The compiled step, or what `make()` returns, kept from now on.
  template <class Make>
  Compiled& find_or_make(const Program& recorded, const StepSpecification& step, const Make& make) {
    const uint64_t key = key_of(recorded);
    const auto [first, last] = entries_.equal_range(key);
    for (auto entry = first; entry != last; ++entry) {
      if (entry->second->step != step) continue;
      if (entry->second->recorded.same_structure(recorded)) {
        ++counters_.hits;
        newest_ = entry->second.get();
        return newest_->compiled;
      }
      ++counters_.collisions;
    }
    ++counters_.misses;
    const std::string name = fmt::format("{:016x}", key);
    const ScopedSpan span(SpanKind::kCompile, "compile", {.what = name});
    auto entry = std::make_unique<Entry>(Entry{recorded, step, make()});
    newest_ = entries_.emplace(key, std::move(entry))->second.get();
    return newest_->compiled;
  }

  // What was found or made last, as it was recorded when it was made; stays as long as the cache.
  const Program& newest_recorded() const { return newest_->recorded; }

  const PlanCacheCounters& counters() const { return counters_; }

 private:
  struct Entry {
    Program recorded;
    StepSpecification step;
    Compiled compiled;
  };

  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries_;
  Entry* newest_ = nullptr;
  PlanCacheCounters counters_;
};

}  // namespace runner::backends
