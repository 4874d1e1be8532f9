// Predicted time of the host's calls on a GPU, against values worked out by hand.
#include "backends/gpu/gpu_clock.h"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "backends/gpu/gpu_device.h"
#include "backends/ir/ops.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu::testing {
namespace {

constexpr GpuMachine kTwo{.gpus = 2};
constexpr Picoseconds kLaunch = LaunchTimes().eager, kArrival = LaunchTimes().arrival;

// Two gradients of 64 MiB, one after the other, each from a product of 2 · 4096² · 512 flops: 881 us.
struct Backward {
  Program program;
  std::optional<Plan> plan;
  DeviceMemory memory{{"gpu 0", int64_t{8} << 30}};

  Backward() {
    const auto input = [&](InputKind kind, const Shape& shape) -> Value {
      return {&program, program.input(kind, "x", {DType::kF32, shape})};
    };
    const Value first = input(InputKind::kState, {4096, 4096}), second = input(InputKind::kState, {4096, 4096});
    const Value a = input(InputKind::kBatch, {4096, 512}), b = input(InputKind::kBatch, {512, 4096});
    input(InputKind::kBatch, {1000});  // has no reader
    const Value product = ops::matmul(a, b);
    program.output("", product.id, 0);
    program.output("", ops::matmul(a, ops::reshape(ops::slice(product, 0, 0, 512), Shape{512, 4096})).id, 1);
    static_cast<void>(first), static_cast<void>(second);
    plan.emplace(build_plan(program, {.fusion = Fusion::kFlat}));
  }
};

constexpr Picoseconds kProduct = to_picoseconds(2.0 * 4096 * 4096 * 512 / 19.5e12);

class GpuClockTest : public ::testing::Test {
 protected:
  GpuClockTest() : step_(*backward_.plan, backward_.memory, kTwo) {}

  static constexpr size_t kGradientBytes = 4096 * 4096 * sizeof(float);

  Backward backward_;
  ModelledStep step_;
  GpuClock clock_{{.machine = kTwo}};
  // Two buckets, in the order in which backward produces them.
  const std::vector<ReducedBytes> reduced_ = {{0, {0, 0, kGradientBytes}}, {1, {1, 0, kGradientBytes}}};
};

TEST_F(GpuClockTest, BatchesAreCopiedBeforeTheLaunchesThatReadThem) {
  ASSERT_EQ(step_.batch().size(), 2u);
  ASSERT_EQ(step_.launches().size(), 2u);
  clock_.compute(step_, {});
  const PredictedTime time = clock_.take();
  const Picoseconds copied = kLaunch + kArrival + 2 * host_copy(4096 * 512 * 4, kTwo).duration;
  EXPECT_EQ(time.elapsed, copied + 2 * kProduct);
  EXPECT_EQ(time.launches, 4);
  EXPECT_EQ(time.of(LaunchClass::kMatmul), 2 * kProduct);
  EXPECT_EQ(time.of(StreamKind::kCompute).unfed + time.exposed_copies(), copied);
}

// The first bucket is reduced while the second is computed; later work waits for the remaining reduction.
TEST_F(GpuClockTest, BucketsAreReducedAfterTheLaunchThatFillsThem) {
  const Picoseconds reduction = all_reduce(64 << 20, kTwo).duration;
  ASSERT_LT(reduction, kProduct);
  clock_.compute(step_, {.reduced = reduced_});
  clock_.compute(step_, {});
  const PredictedTime time = clock_.take();
  EXPECT_EQ(time.of(LaunchClass::kCollective), 2 * reduction);
  EXPECT_EQ(time.exposed_communication(), reduction);
  const Picoseconds copied = kLaunch + kArrival + 2 * host_copy(4096 * 512 * 4, kTwo).duration;
  EXPECT_EQ(time.elapsed, copied + 4 * kProduct + reduction);
}

// Parts of one bucket are reduced together, after the last.
TEST_F(GpuClockTest, ABucketIsReducedOnce) {
  std::vector<ReducedBytes> parts = reduced_;
  parts[1].bucket = parts[0].bucket;
  clock_.compute(step_, {.reduced = parts});
  const PredictedTime time = clock_.take();
  EXPECT_EQ(time.of(LaunchClass::kCollective), all_reduce(128 << 20, kTwo).duration);
  EXPECT_EQ(time.launches, 5);
}

// The gradients of an optimizer step's last micro-batch are added to the accumulated ones one by one. A bucket is
// reduced when all its gradients are complete.
TEST(GpuClockOfSteps, BucketsWaitOnlyForTheirOwnGradients) {
  constexpr int64_t kWidth = 4096, kElements = kWidth * kWidth;
  Program program;
  const auto input = [&](InputKind kind, const char* name, const Shape& shape) -> Value {
    return {&program, program.input(kind, name, {DType::kF32, shape})};
  };
  const Value sums = input(InputKind::kState, "gradients", Shape{2 * kElements});
  const Value x = input(InputKind::kBatch, "x", Shape{kWidth, 512}),
              y = input(InputKind::kBatch, "y", Shape{512, kWidth});
  const auto added = [&](int64_t part, Value product) {
    return ops::add(ops::slice(sums, 0, part * kElements, (part + 1) * kElements),
                    ops::reshape(product, Shape{kElements}));
  };
  const Value first = added(1, ops::matmul(x, y)), second = added(0, ops::matmul(ops::exp(x), y));
  program.output("gradients", ops::concat(std::array{second, first}, 0).id, 0);
  const Plan plan = build_plan(program, {.fusion = Fusion::kFlat});
  constexpr size_t kBytes = kElements * sizeof(float);
  const StateBytes of_second{0, 0, kBytes}, of_first{0, kBytes, 2 * kBytes};
  const std::vector<ReducedBytes> buckets{{0, of_first}, {1, of_second}};
  LaunchSchedule schedule(plan, static_cast<int32_t>(plan.steps.size()));
  const std::span<const LaunchSchedule::Due> due = schedule.find(buckets);
  ASSERT_EQ(due.size(), 2u);
  EXPECT_EQ(due[0].launch, 1);
  EXPECT_EQ(due[1].launch, 4);
  EXPECT_EQ(plan.steps.size(), 5U);
  EXPECT_EQ(launches_of(plan, kTwo)[1].cls, LaunchClass::kElementwise) << "a gradient, not an update";

  DeviceMemory memory({"gpu 0", int64_t{8} << 30});
  ModelledStep step(plan, memory, kTwo);
  GpuClock clock({.machine = kTwo});
  clock.compute(step, {.reduced = buckets});
  EXPECT_EQ(clock.take().exposed_communication(), all_reduce(64 << 20, kTwo).duration)
      << "only the last bucket is exposed";
}

// As with a compression hook: the compute stream waits for it.
TEST(GpuClockOfSteps, ACollectiveInsideAStepIsExposed) {
  Program program;
  const Value gradients{&program, program.input(InputKind::kState, "gradients", {DType::kF32, Shape{1 << 20}})};
  const Value sum = ops::all_reduce(ops::mul(gradients, 0.5), Reduction::kSum, Subject::kGradients);
  program.output("gradients", ops::mul(sum, 2.0).id, 0);
  const Plan plan = build_plan(program, {.fusion = Fusion::kFlat});
  DeviceMemory memory({"gpu 0", int64_t{1} << 30});
  ModelledStep step(plan, memory, kTwo);
  GpuClock clock({.machine = kTwo});
  clock.compute(step, {});
  const PredictedTime time = clock.take();
  EXPECT_GT(time.of(LaunchClass::kCollective), 0);
  EXPECT_EQ(time.of(StreamKind::kCommunication).busy, time.of(LaunchClass::kCollective));
  EXPECT_EQ(time.exposed_communication(), time.of(LaunchClass::kCollective));
}

// A staged batch is copied while the previous step is computed.
TEST_F(GpuClockTest, StagedBatchesAreCopiedDuringThePreviousStep) {
  constexpr int64_t kBytes = 4096 * 512 * 4;
  clock_.compute(step_, {});
  const GpuClock::StagedInputs staged = clock_.stage(step_, {kBytes, kBytes, 4000});
  EXPECT_EQ(staged.bytes, (std::vector<int64_t>{kBytes, kBytes, 0}));
  const Picoseconds first = clock_.take().elapsed;
  clock_.compute(step_, {.staged = &staged});
  const PredictedTime time = clock_.take();
  EXPECT_EQ(time.elapsed, 2 * kProduct);
  EXPECT_EQ(time.launches, 2);
  EXPECT_EQ(time.exposed_copies(), 0);
  EXPECT_GT(first, time.elapsed);
}

TEST_F(GpuClockTest, InputsThatAreNotStagedAreCopied) {
  const GpuClock::StagedInputs other = clock_.stage(step_, {4096 * 512 * 4, 8});
  static_cast<void>(clock_.take());
  clock_.compute(step_, {.staged = &other});
  EXPECT_EQ(clock_.take().launches, 3) << "the batch is copied once";
}

TEST_F(GpuClockTest, TheHostWaitsForReads) {
  clock_.compute(step_, {});
  static_cast<void>(clock_.take());
  clock_.download(4);
  const PredictedTime time = clock_.take();
  EXPECT_EQ(time.elapsed, host_copy(4, kTwo).duration) << "the copy was launched long before";
  EXPECT_EQ(time.of(StreamKind::kCompute).unfed, time.elapsed) << "the host continues after it";
}

TEST_F(GpuClockTest, ANumberReadAfterAnotherIsFree) {
  clock_.compute(step_, {});
  clock_.download(4);
  const Picoseconds one = clock_.take().elapsed;
  for (const int64_t bytes : {1, 8, 16}) clock_.download(bytes);
  EXPECT_EQ(clock_.take().elapsed, 0);
  clock_.download(4096);
  EXPECT_GT(clock_.take().elapsed, 0) << "a read of a tensor waits";
  clock_.download(4);
  EXPECT_GT(clock_.take().elapsed, 0);
  clock_.compute(step_, {});
  clock_.download(4);
  EXPECT_EQ(clock_.take().elapsed, one) << "after another submission";
}

TEST_F(GpuClockTest, BlockingLaunchesTakeHostTime) {
  GpuClock blocking({.machine = kTwo, .launch_blocking = true});
  blocking.compute(step_, {});
  const PredictedTime time = blocking.take();
  const Picoseconds copies = 2 * host_copy(4096 * 512 * 4, kTwo).duration;
  EXPECT_EQ(time.elapsed, 4 * (kLaunch + kArrival) + copies + 2 * kProduct);
}

// The host launches a captured graph once, in addition to the copies; reductions are part of it.
TEST_F(GpuClockTest, ACapturedGraphIsLaunchedOnce) {
  clock_.compute(step_, {.reduced = reduced_, .replays = true});
  const PredictedTime time = clock_.take();
  const Picoseconds copied = kLaunch + kArrival + 2 * host_copy(4096 * 512 * 4, kTwo).duration;
  EXPECT_EQ(time.host_launches, 2 + 1);
  EXPECT_EQ(time.launches, 6);
  EXPECT_EQ(time.elapsed, copied + 2 * kProduct + all_reduce(64 << 20, kTwo).duration);
}

TEST_F(GpuClockTest, ABlockingHostWaitsOncePerCapturedGraph) {
  GpuClock blocking({.machine = kTwo, .launch_blocking = true});
  blocking.compute(step_, {.replays = true});
  const PredictedTime time = blocking.take();
  const Picoseconds copies = 2 * host_copy(4096 * 512 * 4, kTwo).duration;
  EXPECT_EQ(time.elapsed, 2 * (kLaunch + kArrival) + copies + LaunchTimes().replay + kArrival + 2 * kProduct);
}

// A recording round has the spans of both clocks, on separate tracks.
TEST_F(GpuClockTest, TracesHaveSeparateTracks) {
  SpanRecorder recorder;
  const RecordingThread recording(&recorder, "training");
  GpuClock traced({.machine = kTwo});
  ASSERT_EQ(recorder.predicted().size(), kStreamCount);
  traced.compute(step_, {});
  recorder.begin();
  traced.compute(step_, {.reduced = reduced_});
  const std::vector<Span> spans = recorder.end();
  traced.compute(step_, {});
  ASSERT_EQ(spans.size(), 6u);
  for (const Span& span : spans) {
    const std::string track = recorder.threads()[static_cast<size_t>(span.thread)];
    const bool copy = span.kind == SpanKind::kTransfer, sum = span.kind == SpanKind::kCollective;
    EXPECT_EQ(track, copy ? "a100-40g copy in" : sum ? "a100-40g communication" : "a100-40g compute");
    EXPECT_TRUE(span.kind != SpanKind::kKernel || (span.end_ns - span.begin_ns) * 1000 - kProduct <= 1000);
  }
}

// Predicted time depends on the device's calls, not on the thread that does the work.
TEST(GpuDeviceTime, IsReproducible) {
  const backends::testing::MlpStep step({.batch = 64, .widths = {32, 64, 10}});
  const auto predicted = [&](bool own_thread) {
    const auto device = make_gpu_device({.own_thread = own_thread});
    backends::testing::Session session(*device, step.program(), step.inputs(1));
    model_of_gpu(*device).take_predicted_time();
    std::vector<Picoseconds> times;
    for (int i = 0; i < 3; ++i) {
      session.submit();
      session.output(0);
      times.push_back(model_of_gpu(*device).take_predicted_time().elapsed);
    }
    return times;
  };
  EXPECT_EQ(predicted(true), predicted(false));
  EXPECT_EQ(predicted(true)[1], predicted(true)[2]);
  EXPECT_GT(predicted(true)[0], 0);
}

}  // namespace
}  // namespace runner::backends::gpu::testing
