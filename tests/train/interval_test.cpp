#include "runner/train/loop/interval.h"

#include <vector>

#include <gtest/gtest.h>

namespace runner::train {
namespace {

using schema::Unit;

// The steps after which the interval is due, with epochs of 3 steps of 8, 8 and 4 samples.
std::vector<int64_t> due_steps(const Interval& interval) {
  std::vector<int64_t> steps;
  Progress at;
  while (at.steps < 12) {
    const Progress before = at;
    ++at.steps;
    at.epochs = at.steps / 3;
    at.samples += at.steps % 3 == 0 ? 4 : 8;
    if (interval.due(before, at)) steps.push_back(at.steps);
  }
  return steps;
}

TEST(Interval, IsDueAtEachMultipleOfTheLength) {
  EXPECT_EQ(due_steps(Interval({{5, Unit::kSteps}})), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(due_steps(Interval({{2, Unit::kEpochs}})), (std::vector<int64_t>{6, 12}));
  EXPECT_EQ(due_steps(Interval({{30, Unit::kSamples}})), (std::vector<int64_t>{5, 9}));  // 36 and 60 samples
  EXPECT_EQ(due_steps(Interval({{7, Unit::kSamples}})), (std::vector<int64_t>{1, 2, 4, 5, 7, 8, 10, 11, 12}));
  EXPECT_EQ(due_steps(Interval(std::nullopt)), (std::vector<int64_t>()));
}

TEST(Interval, IsDueOnceIfAStepPassesSeveralMultiples) {
  const Interval each({{1, Unit::kEpochs}});
  EXPECT_TRUE(each.due({.epochs = 1}, {.epochs = 4}));
  EXPECT_FALSE(each.due({.epochs = 4}, {.epochs = 4}));
}

}  // namespace
}  // namespace runner::train
