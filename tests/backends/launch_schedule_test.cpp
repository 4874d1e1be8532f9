// After which launch byte ranges of states have their final contents, for a Plan written by hand.
#include "backends/exec/launch_schedule.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace runner::backends {
namespace {

// Slots: 0 is the arena, 1 the batch, 2 state 0 with 16 floats, 3 a scalar, 4 state 1 with 4 floats. Three launches:
// 0 writes the floats 0 to 8 of state 0 and 4 to 8 of the arena, 1 the floats 8 to 12 of state 0, 2 again the floats
// 0 to 4. A copy then writes state 1.
class LaunchScheduleTest : public ::testing::Test {
 protected:
  LaunchScheduleTest() {
    Program& program = plan_.program;
    const ValueId eight = program.input(InputKind::kBatch, "x", {DType::kF32, Shape{8}});
    program.input(InputKind::kState, "w", {DType::kF32, Shape{16}});
    program.input(InputKind::kScalar, "rate", {DType::kF32, {}});
    const ValueId four = program.input(InputKind::kState, "b", {DType::kF32, Shape{4}});
    const auto writes = [&](std::vector<SlotOffset> places, std::vector<ValueId> values) {
      PlanStep step;
      step.results = std::move(places);
      step.result_values = std::move(values);
      plan_.steps.push_back(std::move(step));
    };
    writes({{kState0, 0}, {0, 16}}, {eight, four});
    writes({{kState0, 32}}, {four});
    writes({{kState0, 0}}, {four});
    plan_.copies.push_back({.from = {0, 16}, .to = {kState1, 0}, .bytes = 16});
  }

  // The buckets in order: "bucket@launch:bytes".
  std::string due(const std::vector<ReducedBytes>& ranges) {
    std::string text;
    for (const LaunchSchedule::Due& bucket : schedule_.find(ranges))
      text += fmt::format("{}@{}:{} ", bucket.bucket, bucket.launch, bucket.bytes);
    return text;
  }

  static constexpr int32_t kState0 = 2, kState1 = 4;
  Plan plan_;
  LaunchSchedule schedule_{plan_, 4};
};

TEST_F(LaunchScheduleTest, FindsTheLastLaunchThatWritesARange) {
  EXPECT_EQ(due({{0, {0, 0, 16}}}), "0@2:16 ") << "launch 2 overwrites what launch 0 has written";
  EXPECT_EQ(due({{0, {0, 16, 32}}}), "0@0:16 ");
  EXPECT_EQ(due({{0, {0, 32, 48}}}), "0@1:16 ");
  EXPECT_EQ(due({{0, {0, 12, 20}}}), "0@2:8 ") << "partly written";
  EXPECT_EQ(due({{0, {0, 28, 36}}}), "0@1:8 ");
}

TEST_F(LaunchScheduleTest, RangesTouchOnlyIfTheyShareAByte) {
  EXPECT_EQ(due({{0, {0, 16, 17}}}), "0@0:1 ");
  EXPECT_EQ(due({{0, {0, 15, 16}}}), "0@2:1 ");
  EXPECT_EQ(due({{0, {0, 48, 64}}}), "0@-1:16 ") << "no launch writes it";
}

TEST_F(LaunchScheduleTest, CopiesAndWholeSubmissionsAreLast) {
  EXPECT_EQ(due({{0, {1, 0, 16}}}), "0@3:16 ");
  EXPECT_EQ(due({{0, {-1, 0, 0}}}), "0@3:0 ");
}

TEST_F(LaunchScheduleTest, ABucketIsDueWithItsLastRange) {
  EXPECT_EQ(due({{0, {0, 16, 32}}, {0, {0, 32, 48}}}), "0@1:32 ");
  EXPECT_EQ(due({{7, {1, 0, 16}}, {8, {0, 0, 8}}, {9, {0, 16, 32}}, {9, {0, 48, 64}}}), "9@0:32 8@2:8 7@3:16 ");
}

TEST_F(LaunchScheduleTest, BucketsOfOneLaunchKeepTheirOrder) {
  EXPECT_EQ(due({{5, {0, 24, 32}}, {3, {0, 16, 24}}, {4, {0, 0, 4}}}), "5@0:8 3@0:8 4@2:4 ");
}

// Launch 2 reads the floats 8 to 12 of state 0, and the copy reads the arena only.
TEST_F(LaunchScheduleTest, MayWaitForReadsToo) {
  plan_.steps[2].operands = {{kState0, 32}};
  plan_.steps[2].operand_values = {plan_.steps[2].result_values[0]};
  const std::vector<ReducedBytes> ranges{{0, {0, 32, 48}}};
  EXPECT_EQ(due(ranges), "0@1:16 ");
  LaunchSchedule until_unused(plan_, 4, LaunchSchedule::Until::kUnused);
  EXPECT_EQ(until_unused.find(ranges)[0].launch, 2);
}

TEST_F(LaunchScheduleTest, FollowsEachRequest) {
  EXPECT_EQ(due({{0, {0, 16, 32}}}), "0@0:16 ");
  EXPECT_EQ(due({{0, {0, 16, 32}}}), "0@0:16 ");
  EXPECT_EQ(due({{0, {0, 32, 48}}}), "0@1:16 ");
  EXPECT_EQ(due({}), "");
}

}  // namespace
}  // namespace runner::backends
