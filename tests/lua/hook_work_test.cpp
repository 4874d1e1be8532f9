// Growing work of hooks: which sequences of counts grow.
#include "runner/lua/hook_work.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

namespace runner::lua {
namespace {

constexpr int64_t kSteps = 5000;

// Returns the number of counts after which growth is found, or 0 if it never is. `of_step`: count of a step, from 0.
int64_t found_after(const std::function<double(int64_t)>& of_step, double least = 16) {
  GrowthWatch watch(least);
  for (int64_t step = 0; step < kSteps; ++step)
    if (watch.add(of_step(step))) return step + 1;
  return 0;
}

TEST(GrowthWatch, FindsCountsThatGrowWithEachStep) {
  EXPECT_EQ(found_after([](int64_t step) { return 1.0 + static_cast<double>(step); }), 128);
  EXPECT_EQ(found_after([](int64_t step) { return 200.0 + 2 * static_cast<double>(step); }), 1024);
}

TEST(GrowthWatch, FindsCountsThatGrowWithEachEpoch) {
  const auto count = [](int64_t step) {
    const int64_t epoch = step / 25;
    return 10.0 + static_cast<double>(epoch);
  };
  EXPECT_GT(found_after(count), 0);
}

TEST(GrowthWatch, FindsGrowthBetweenLargeCounts) {
  EXPECT_EQ(found_after([](int64_t step) { return step % 10 == 0 ? 5000.0 : 1.0 + static_cast<double>(step); }), 128);
}

TEST(GrowthWatch, ReturnsTheSmallestCounts) {
  GrowthWatch watch(16);
  std::optional<GrowthWatch::Growth> growth;
  for (int64_t step = 0; !growth; ++step) growth = watch.add(static_cast<double>(step));
  EXPECT_EQ(growth->from, 8);
  EXPECT_EQ(growth->to, 64);
}

TEST(GrowthWatch, IgnoresConstantCounts) {
  EXPECT_EQ(found_after([](int64_t) { return 100.0; }), 0);
  EXPECT_EQ(found_after([](int64_t) { return 0.0; }), 0);
}

TEST(GrowthWatch, IgnoresEvaluationsAndEpochsOfDifferentLength) {
  EXPECT_EQ(found_after([](int64_t step) { return step % 7 == 0 ? 100.0 + static_cast<double>(step) : 20.0; }), 0);
  // Epochs become longer, and the last step of each has fewer batches and an evaluation.
  const auto ends_epoch = [](int64_t step) {
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(step)));
    return root * root == step;
  };
  EXPECT_EQ(found_after([&](int64_t step) { return ends_epoch(step) ? 900.0 : 30.0; }), 0);
}

TEST(GrowthWatch, IgnoresGrowthThatEnds) {
  EXPECT_EQ(found_after([](int64_t step) { return std::min(60.0, 20.0 + static_cast<double>(step)); }), 0);
  EXPECT_EQ(found_after([](int64_t step) { return 100 * std::log(10.0 + static_cast<double>(step)); }), 0);
  EXPECT_EQ(found_after([](int64_t step) { return step < 100 ? 50.0 : 500.0; }), 0);
}

TEST(GrowthWatch, IgnoresGrowthByLittle) {
  EXPECT_EQ(found_after([](int64_t step) { return step < 16 ? 1.0 : step < 32 ? 2.0 : step < 64 ? 3.0 : 4.0; }), 0);
}

}  // namespace
}  // namespace runner::lua
