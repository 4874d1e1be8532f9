#include "runner/train/loop/interval.h"

#include <vector>

#include <gtest/gtest.h>

namespace runner::train {
namespace {

using schema::Unit;

// A run of four epochs of 3 steps.
const optim::RunLength kRun{.total_steps = 12, .steps_per_epoch = {3}, .samples_per_epoch = 20};

Interval of(schema::Length length) {
  return {length, kRun};
}

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

// The product of the length and the run is 2^64.
TEST(Interval, OfAnExtremeRunHasALength) {
  const optim::RunLength run{.total_steps = int64_t{1} << 62, .steps_per_epoch = {1}, .samples_per_epoch = 1};
  const Interval interval = Interval(schema::Length{4, Unit::kRuns, 100}, run);
  EXPECT_EQ(interval.count({.steps = 1000}), 0);
}

TEST(Interval, IsDueAtEachMultipleOfTheLength) {
  EXPECT_EQ(due_steps(of({5, Unit::kSteps})), (std::vector<int64_t>{5, 10}));
  EXPECT_EQ(due_steps(of({2, Unit::kEpochs})), (std::vector<int64_t>{6, 12}));
  EXPECT_EQ(due_steps(of({30, Unit::kSamples})), (std::vector<int64_t>{5, 9}));  // 36 and 60 samples
  EXPECT_EQ(due_steps(of({7, Unit::kSamples})), (std::vector<int64_t>{1, 2, 4, 5, 7, 8, 10, 11, 12}));
  EXPECT_EQ(due_steps(Interval(std::nullopt, kRun)), (std::vector<int64_t>()));
}

TEST(Interval, OfAPartOfAnEpochOrOfTheRun) {
  EXPECT_EQ(due_steps(of({5, Unit::kEpochs, 10})), (std::vector<int64_t>{2, 3, 5, 6, 8, 9, 11, 12}));  // 10 samples
  EXPECT_EQ(due_steps(of({15, Unit::kEpochs, 10})), (std::vector<int64_t>{5, 9}));                     // 30 samples
  EXPECT_EQ(due_steps(of({25, Unit::kRuns, 100})), (std::vector<int64_t>{3, 6, 9, 12}));
  EXPECT_EQ(due_steps(of({125, Unit::kRuns, 1000})), (std::vector<int64_t>{2, 3, 5, 6, 8, 9, 11, 12}));  // 1.5 steps
  EXPECT_EQ(due_steps(of({100, Unit::kRuns, 100})), (std::vector<int64_t>{12}));
}

TEST(Interval, IsDueOnceIfAStepPassesSeveralMultiples) {
  const Interval each = of({1, Unit::kEpochs});
  EXPECT_TRUE(each.due({.epochs = 1}, {.epochs = 4}));
  EXPECT_FALSE(each.due({.epochs = 4}, {.epochs = 4}));
}

}  // namespace
}  // namespace runner::train
