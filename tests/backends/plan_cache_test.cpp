// The plan cache finds a step by what it computes, never by its hash alone.
#include "backends/exec/plan_cache.h"

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "schema/base/error.h"

namespace runner::backends::testing {
namespace {

// y = x · value over (size).
Program recorded(int64_t size, double value = 2, int line = 1) {
  Program program;
  program.set_mark({"step.lua", line, 0});
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{size}})};
  program.output("y", ops::mul(x, value).id);
  return program;
}

template <class Cache>
int find(Cache& cache, const Program& program, const StepSpecification& step, int made) {
  return cache.find_or_make(program, step, [made] { return made; });
}

TEST(PlanCache, HitsEqualSteps) {
  PlanCache<int> cache;
  EXPECT_EQ(find(cache, recorded(4), {1, 1}, 10), 10);
  EXPECT_EQ(find(cache, recorded(4), {1, 1}, 11), 10);
  EXPECT_EQ(find(cache, recorded(4, 2, 99), {1, 1}, 12), 10);  // from another line
  EXPECT_EQ(cache.counters().hits, 2);
  EXPECT_EQ(cache.counters().misses, 1);
  EXPECT_EQ(cache.counters().collisions, 0);
}

TEST(PlanCache, MissesOnAnyDifference) {
  PlanCache<int> cache;
  find(cache, recorded(4), {1, 1}, 10);
  EXPECT_EQ(find(cache, recorded(5), {1, 1}, 11), 11);
  EXPECT_EQ(find(cache, recorded(4, 3), {1, 1}, 12), 12);
  EXPECT_EQ(find(cache, recorded(4), {1, 0}, 13), 13);
  Program two_outputs = recorded(4);
  two_outputs.output("x", two_outputs.inputs()[0].value);
  EXPECT_EQ(find(cache, two_outputs, {1, 1}, 14), 14);
  EXPECT_EQ(cache.counters().hits, 0);
  EXPECT_EQ(cache.counters().misses, 5);
  EXPECT_EQ(find(cache, recorded(4), {1, 0}, 15), 13);
  EXPECT_EQ(cache.counters().collisions, 0);
}

uint64_t one_key(const Program&) {
  return 7;
}

TEST(PlanCache, VerifiesHits) {
  PlanCache<int, one_key> cache;
  EXPECT_EQ(find(cache, recorded(4), {}, 10), 10);
  EXPECT_EQ(find(cache, recorded(5), {}, 11), 11);
  EXPECT_EQ(cache.counters().collisions, 1);
  EXPECT_EQ(find(cache, recorded(5), {}, 12), 11);
  EXPECT_EQ(find(cache, recorded(4), {}, 13), 10);
  EXPECT_EQ(cache.counters().hits, 2);
}

TEST(PlanCache, CachesNothingIfCompilationFails) {
  PlanCache<int> cache;
  EXPECT_THROW(cache.find_or_make(recorded(4), {}, []() -> int { fail(ErrorKind::kRun, "no kernel"); }), Error);
  EXPECT_EQ(find(cache, recorded(4), {}, 10), 10);
}

TEST(PlanCache, EvictsTheLeastRecentlyUsedStep) {
  PlanCache<int> cache({.steps = 2});
  find(cache, recorded(1), {}, 1);
  find(cache, recorded(2), {}, 2);
  const std::shared_ptr<const Program> kept = cache.newest_recorded();
  EXPECT_EQ(find(cache, recorded(1), {}, 0), 1);
  EXPECT_EQ(find(cache, recorded(3), {}, 3), 3);
  EXPECT_EQ(find(cache, recorded(1), {}, 0), 1);
  EXPECT_EQ(find(cache, recorded(2), {}, 4), 4) << "compiled again";
  EXPECT_EQ(kept->size(), recorded(2).size()) << "an evicted step stays usable";
}

TEST(PlanCache, EvictsByNumberOfNodes) {
  const int64_t nodes = recorded(1).size();
  PlanCache<int> cache({.nodes = 2 * nodes});
  find(cache, recorded(1), {}, 1);
  find(cache, recorded(2), {}, 2);
  EXPECT_EQ(find(cache, recorded(1), {}, 0), 1);
  find(cache, recorded(3), {}, 3);
  EXPECT_EQ(find(cache, recorded(1), {}, 0), 1);
  EXPECT_EQ(find(cache, recorded(2), {}, 4), 4) << "compiled again";
  PlanCache<int> tiny({.nodes = 1});
  find(tiny, recorded(1), {}, 1);
  EXPECT_EQ(find(tiny, recorded(1), {}, 2), 1) << "the newest step is kept at any size";
}

// References stay valid while other steps are added.
TEST(PlanCache, ReturnsStableReferences) {
  PlanCache<int> cache;
  const int& first = cache.find_or_make(recorded(1), {}, [] { return 1; });
  for (int64_t size = 2; size < 200; ++size)
    cache.find_or_make(recorded(size), {}, [size] { return static_cast<int>(size); });
  EXPECT_EQ(&first, &cache.find_or_make(recorded(1), {}, [] { return 0; }));
  EXPECT_EQ(first, 1);
}

}  // namespace
}  // namespace runner::backends::testing
