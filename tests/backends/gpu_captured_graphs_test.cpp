// Captured graphs of an emulated GPU: which submissions are replays, and that results stay bit-identical.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/captured_graphs.h"
#include "backends/gpu/gpu_device.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu {
namespace {

using backends::testing::MlpStep;
using backends::testing::Session;

// Result of steps on batches of the given sizes, with one Executable per size, as in training.
struct Trained {
  std::vector<backends::testing::HostTensor> states;
  CaptureCounters captures;
  std::vector<std::string> warnings;
  PredictedTime time;
};

Trained train(const GpuOptions& options, const std::vector<int64_t>& sizes) {
  const auto device = make_gpu_device(options);
  std::map<int64_t, MlpStep> steps;
  std::map<int64_t, Session> sessions;
  int64_t batch = 0;
  for (const int64_t size : sizes) {
    const MlpStep& step = steps.try_emplace(size, backends::testing::MlpOptions{.batch = size}).first->second;
    Session& session = sessions.try_emplace(size, *device, step.program(), step.inputs(1)).first->second;
    session.step = ++batch;
    device->wait(session.submit());
  }
  return {.states = sessions.at(sizes.front()).results().states,
          .captures = model_of_gpu(*device).captures().value_or(CaptureCounters()),
          .warnings = device->take_warnings(),
          .time = model_of_gpu(*device).take_predicted_time()};
}

class GpuCapturedGraphs : public ::testing::TestWithParam<bool> {
 protected:
  GpuOptions options() const { return {.own_thread = GetParam(), .capture = true}; }
};
INSTANTIATE_TEST_SUITE_P(OwnThread, GpuCapturedGraphs, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

TEST_P(GpuCapturedGraphs, AreReplayedFromTheThirdSubmission) {
  const Trained captured = train(options(), {8, 8, 8, 8, 8});
  EXPECT_EQ(captured.captures.graphs, 1);
  EXPECT_EQ(captured.captures.replays, 3);
  EXPECT_EQ(captured.captures.fallbacks, 0);
  EXPECT_TRUE(captured.warnings.empty());
}

TEST_P(GpuCapturedGraphs, AreBitIdenticalToEagerLaunches) {
  const Trained captured = train(options(), {8, 8, 8, 8, 8});
  const Trained launched = train({.own_thread = GetParam()}, {8, 8, 8, 8, 8});
  EXPECT_EQ(captured.states, launched.states);
  EXPECT_EQ(launched.captures.replays, 0);
  EXPECT_EQ(captured.time.launches, launched.time.launches) << "the same kernels run on the device";
  EXPECT_EQ(launched.time.host_launches, launched.time.launches);
  EXPECT_LT(captured.time.host_launches * 3, launched.time.host_launches * 2);
}

TEST_P(GpuCapturedGraphs, AreNotReplayedForAnotherGraph) {
  const Trained captured = train(options(), {8, 8, 8, 6, 8, 6, 8, 6});
  EXPECT_EQ(captured.captures.graphs, 2);
  EXPECT_EQ(captured.captures.replays, 4);
  EXPECT_EQ(captured.captures.fallbacks, 2);
  EXPECT_EQ(captured.states, train({.own_thread = GetParam()}, {8, 8, 8, 6, 8, 6, 8, 6}).states);
  ASSERT_EQ(captured.warnings.size(), 1u) << "reported once";
  EXPECT_EQ(captured.warnings[0],
            "gpu.capture: gpu 0, mlp.lua:1: \"\" of batch 4 differs from the captured graph and runs eagerly until it "
            "has run twice: features changed from (8, 4) f32 to (6, 4) f32");
}

// A graph that changes every step is never captured, and a warning says so.
TEST_P(GpuCapturedGraphs, AreReportedMissingIfNoneRepeats) {
  std::vector<int64_t> sizes;
  for (int64_t size = 2; size < 17; ++size) sizes.push_back(size);
  const Trained captured = train(options(), sizes);
  EXPECT_EQ(captured.captures.graphs, 0);
  EXPECT_EQ(captured.captures.fallbacks, 3);
  ASSERT_EQ(captured.warnings.size(), 1u);
  EXPECT_EQ(captured.warnings[0],
            "gpu.capture: gpu 0, mlp.lua:1: \"\" of batch 13 runs eagerly, like the 12 before it: none ran three "
            "times: features changed from (13, 4) f32 to (14, 4) f32");
  sizes.resize(12);
  EXPECT_EQ(train(options(), sizes).captures.fallbacks, 0);
}

// A line of a hook that reads a value in training and in evaluations makes two graphs of one name and line.
TEST_P(GpuCapturedGraphs, OfTrainingAndOfEvaluationsDoNotCompete) {
  const auto device = make_gpu_device(options());
  const MlpStep training({.batch = 8}), evaluation({.batch = 6});
  Session of_training(*device, training.program(), training.inputs(1));
  Session of_evaluation(*device, evaluation.program(), evaluation.inputs(1));
  of_evaluation.evaluates = true;
  for (int64_t batch = 1; batch <= 4; ++batch) of_training.submit();
  for (int64_t batch = 1; batch <= 4; ++batch) of_evaluation.submit();
  device->synchronize();
  const CaptureCounters captures = *model_of_gpu(*device).captures();
  EXPECT_EQ(captures.graphs, 2);
  EXPECT_EQ(captures.fallbacks, 0);
  EXPECT_TRUE(device->take_warnings().empty());
}

// Like micro-batches of an optimizer step: the second kind is captured before the first has run twice.
TEST_P(GpuCapturedGraphs, AreCapturedForAlternatingSteps) {
  const Trained captured = train(options(), {8, 6, 6, 6, 8, 6, 6, 6, 8, 6});
  EXPECT_EQ(captured.captures.graphs, 2);
  EXPECT_EQ(captured.captures.replays, 6);
  EXPECT_EQ(captured.captures.fallbacks, 0);
  EXPECT_TRUE(captured.warnings.empty());
}

}  // namespace
}  // namespace runner::backends::gpu
