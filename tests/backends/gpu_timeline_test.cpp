// The predicted clock, against timelines worked out by hand, and properties of random timelines.
#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "backends/gpu/timeline.h"

namespace runner::backends::gpu {
namespace {

constexpr StreamKind kCompute = StreamKind::kCompute, kCopyIn = StreamKind::kCopyIn, kCopyOut = StreamKind::kCopyOut,
                     kCommunication = StreamKind::kCommunication;
constexpr StreamKind kAllStreams[] = {kCommunication, kCopyIn, kCopyOut, kCompute};

// A host that takes 10 per launch, 15 per graph, and 5 until a launch arrives.
constexpr LaunchTimes kSlowHost{.eager = 10, .replay = 15, .arrival = 5};
constexpr LaunchTimes kNoHost{.eager = 0, .replay = 0, .arrival = 0};

Launch kernel(Picoseconds duration, LaunchClass cls = LaunchClass::kMatmul) {
  return {.cls = cls, .duration = duration, .at_peak = duration / 2, .name = "kernel"};
}

// Launched at 10, 20, 30, arriving 5 later; each kernel ends before the next arrives: the device waits for the host.
TEST(GpuTimeline, SmallKernelsWaitForTheHost) {
  Timeline timeline(kSlowHost);
  for (int i = 0; i < 3; ++i) timeline.launch(kCompute, kernel(4));
  EXPECT_EQ(timeline.host(), 30);
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 39);  // 35 + 4
  EXPECT_EQ(time.of(kCompute).busy, 12);
  EXPECT_EQ(time.of(kCompute).unfed, 15 + 6 + 6);
  EXPECT_DOUBLE_EQ(time.host_bound_share(), 27.0 / 39);
  EXPECT_DOUBLE_EQ(time.peak_share(), 6.0 / 39);
  EXPECT_EQ(time.launches, 3);
}

// The first kernel arrives at 15 and runs until 115; the others are queued.
TEST(GpuTimeline, LargeKernelsHideHostTime) {
  Timeline timeline(kSlowHost);
  for (int i = 0; i < 3; ++i) timeline.launch(kCompute, kernel(100));
  EXPECT_EQ(timeline.host(), 30);
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 315);
  EXPECT_EQ(time.of(kCompute).unfed, 15);
}

// One launch of 15 for all kernels, arriving at 20.
TEST(GpuTimeline, AGraphIsLaunchedOnce) {
  Timeline timeline(kSlowHost);
  timeline.begin_replay();
  for (int i = 0; i < 3; ++i) timeline.launch(kCompute, kernel(4));
  timeline.end_replay();
  EXPECT_EQ(timeline.host(), 15);
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 32);
  EXPECT_EQ(time.of(kCompute).unfed, 20);
  EXPECT_EQ(time.launches, 3);
}

// Batches take 30 to copy and 50 to use: the first copy is waited for, the second overlaps with the first batch's
// kernels.
TEST(GpuTimeline, CopiesOverlapWithKernels) {
  Timeline timeline(kNoHost);
  for (int batch = 0; batch < 2; ++batch) {
    timeline.launch(kCopyIn, kernel(30, LaunchClass::kCopy));
    timeline.wait(kCompute, timeline.record(kCopyIn));
    timeline.launch(kCompute, kernel(50));
  }
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 130);
  EXPECT_EQ(time.exposed_copies(), 30);
  EXPECT_EQ(time.of(kCopyIn).busy, 60);
  EXPECT_EQ(time.of(LaunchClass::kCopy), 60);
  EXPECT_EQ(time.of(LaunchClass::kMatmul), 100);
}

// For example while a checkpoint is saved between steps that are measured.
TEST(GpuTimeline, IdleTimeBelongsToThePeriodInWhichItOccurred) {
  Timeline timeline(kSlowHost);
  timeline.launch(kCompute, kernel(50));
  timeline.synchronize(kCompute);
  EXPECT_EQ(timeline.take().of(kCompute).unfed, 10 + 5);
  timeline.launch(kCopyOut, kernel(1000, LaunchClass::kCopy));
  timeline.synchronize(kCopyOut);
  EXPECT_EQ(timeline.take().of(kCompute).unfed, 10 + 5 + 1000);
  timeline.launch(kCompute, kernel(50));
  const PredictedTime step = timeline.take();
  EXPECT_EQ(step.of(kCompute).unfed, 10 + 5);
  EXPECT_EQ(step.elapsed, 10 + 5 + 50);
}

// Copies of 80 limit kernels of 50, which run from 80 to 130 and from 160 to 210.
TEST(GpuTimeline, SlowCopiesAreExposed) {
  Timeline timeline(kNoHost);
  for (int batch = 0; batch < 2; ++batch) {
    timeline.launch(kCopyIn, kernel(80, LaunchClass::kCopy));
    timeline.wait(kCompute, timeline.record(kCopyIn));
    timeline.launch(kCompute, kernel(50));
  }
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 210);
  EXPECT_EQ(time.exposed_copies(), 80 + 30);
}

// Backward in three parts of 40, each with a bucket; then an update of 10.
PredictedTime backward_with_buckets(Picoseconds reduction) {
  Timeline timeline(kNoHost);
  for (int part = 0; part < 3; ++part) {
    timeline.launch(kCompute, kernel(40));
    timeline.wait(kCommunication, timeline.record(kCompute));
    timeline.launch(kCommunication, kernel(reduction, LaunchClass::kCollective));
  }
  timeline.wait(kCompute, timeline.record(kCommunication));
  timeline.launch(kCompute, kernel(10, LaunchClass::kOptimizer));
  return timeline.take();
}

TEST(GpuTimeline, ReductionsOverlapWithBackward) {
  // The buckets start at 40, 80 and 120, each done before the next: only the last is exposed.
  const PredictedTime fast = backward_with_buckets(30);
  EXPECT_EQ(fast.elapsed, 120 + 30 + 10);
  EXPECT_EQ(fast.exposed_communication(), 30);
  EXPECT_EQ(fast.of(kCommunication).busy, 90);
  EXPECT_EQ(fast.of(kCommunication).waited[static_cast<size_t>(kCompute)], 40 + 10 + 10);
  // The buckets run from 40 without a gap: 40 + 3 · 70.
  const PredictedTime slow = backward_with_buckets(70);
  EXPECT_EQ(slow.elapsed, 250 + 10);
  EXPECT_EQ(slow.exposed_communication(), 250 - 120);
  EXPECT_EQ(slow.of(kCommunication).waited[static_cast<size_t>(kCompute)], 40);
}

// Ring all-reduces on A100s: 25 MiB take 126.8 us on two, 251.2 us on eight; the kernels before them 1 ms.
TEST(GpuTimeline, RingAllReducesOfTwoAndEight) {
  for (const int gpus : {2, 8}) {
    Timeline timeline;
    timeline.launch(kCompute, kernel(to_picoseconds(1e-3)));
    timeline.wait(kCommunication, timeline.record(kCompute));
    const Launch ring = all_reduce(25 << 20, {.gpus = gpus});
    timeline.launch(kCommunication, ring);
    timeline.wait(kCompute, timeline.record(kCommunication));
    const PredictedTime time = timeline.take();
    EXPECT_EQ(time.elapsed, to_picoseconds(10e-6 + 1e-3) + ring.duration);
    EXPECT_EQ(time.exposed_communication(), ring.duration);
    EXPECT_NEAR(to_seconds(ring.duration), gpus == 2 ? 126.8e-6 : 251.2e-6, 0.1e-6);
  }
}

// Waiting for a past event, or for one of the same stream, costs nothing; for a later event, the time until then.
TEST(GpuTimeline, WaitsEndAtTheEvent) {
  Timeline timeline(kNoHost);
  timeline.launch(kCopyOut, kernel(20));
  const PredictedEvent early = timeline.record(kCopyOut);
  timeline.launch(kCopyOut, kernel(30));
  const PredictedEvent late = timeline.record(kCopyOut);
  timeline.wait(kCopyOut, late);
  timeline.wait(kCompute, late);
  timeline.wait(kCompute, early);
  timeline.wait(kCompute, late);
  timeline.launch(kCompute, kernel(5));
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 55);
  EXPECT_EQ(time.of(kCompute).waited[static_cast<size_t>(kCopyOut)], 50);
}

// The host reads at 15 + 100; what it launches until 125 arrives at 130.
TEST(GpuTimeline, AWaitingHostLeavesAGap) {
  Timeline timeline(kSlowHost);
  timeline.launch(kCompute, kernel(100));
  timeline.synchronize(kCompute);
  EXPECT_EQ(timeline.host(), 115);
  timeline.synchronize(kCompute);
  timeline.launch(kCompute, kernel(100));
  const PredictedTime time = timeline.take();
  EXPECT_EQ(time.elapsed, 230);
  EXPECT_EQ(time.of(kCompute).unfed, 15 + 15);
}

TEST(GpuTimeline, SpansHaveTheTimesOfLaunches) {
  Timeline timeline(kSlowHost);
  std::vector<PredictedSpan> spans;
  timeline.launch(kCompute, kernel(1));
  timeline.record_spans(&spans);
  timeline.launch(kCompute, kernel(50));
  timeline.launch(kCopyIn, kernel(7, LaunchClass::kCopy));
  timeline.record_spans(nullptr);
  timeline.launch(kCompute, kernel(1));
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin, 25);
  EXPECT_EQ(spans[0].end, 75);
  EXPECT_EQ(spans[0].name, "kernel");
  EXPECT_EQ(spans[1].stream, kCopyIn);
  EXPECT_EQ(spans[1].cls, LaunchClass::kCopy);
  EXPECT_EQ(spans[1].begin, 35);
  EXPECT_EQ(spans[1].end, 42);
}

// ---- any timeline --------------------------------------------------------------------------------------------------

struct Call {
  enum class Kind : uint8_t { kLaunch, kWait, kReplay, kSynchronize } kind;
  StreamKind stream, other;
  Picoseconds duration;
};

std::vector<Call> random_calls(uint32_t seed) {
  std::mt19937 random(seed);
  const auto any_stream = [&] { return kAllStreams[random() % std::size(kAllStreams)]; };
  std::vector<Call> calls;
  for (int i = 0; i < 40; ++i) {
    const auto draw = random() % 20;
    const Call::Kind kind = draw < 11   ? Call::Kind::kLaunch
                            : draw < 16 ? Call::Kind::kWait
                            : draw < 17 ? Call::Kind::kReplay
                                        : Call::Kind::kSynchronize;
    calls.push_back({kind, any_stream(), any_stream(), static_cast<Picoseconds>(random() % 60)});
  }
  return calls;
}

void run(Timeline& timeline, const Call& call) {
  switch (call.kind) {
    case Call::Kind::kLaunch: timeline.launch(call.stream, kernel(call.duration)); break;
    case Call::Kind::kWait: timeline.wait(call.stream, timeline.record(call.other)); break;
    case Call::Kind::kReplay:
      timeline.begin_replay();
      timeline.launch(call.stream, kernel(call.duration));
      timeline.launch(call.other, kernel(1));
      timeline.end_replay();
      break;
    case Call::Kind::kSynchronize: timeline.synchronize(call.stream); break;
  }
}

Picoseconds total(const StreamTime& time) {
  return std::accumulate(time.waited.begin(), time.waited.end(), time.busy + time.unfed);
}

TEST(GpuTimeline, EveryPicosecondHasOneCause) {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    Timeline timeline(kSlowHost);
    Picoseconds before = 0, arrivals = 0;
    for (const Call& call : random_calls(seed)) {
      run(timeline, call);
      ASSERT_GE(timeline.done(), before) << seed;
      before = timeline.done();
      ++arrivals;
    }
    const Picoseconds host = timeline.host(), done = timeline.done();
    PerStream<Picoseconds> clocks{};
    for (const StreamKind stream : kAllStreams) clocks[static_cast<size_t>(stream)] = timeline.record(stream).at;
    const PredictedTime time = timeline.take();
    ASSERT_EQ(time.elapsed, done);
    Picoseconds busy = 0;
    for (const StreamKind stream : kAllStreams) {
      const StreamTime& of = time.of(stream);
      ASSERT_EQ(total(of), std::max(clocks[static_cast<size_t>(stream)], host)) << seed;
      ASSERT_GE(time.elapsed, of.busy) << seed;
      busy += of.busy;
    }
    // The bound if nothing overlapped and each command arrived by itself.
    const Picoseconds issuing = time.host_launches * std::max(kSlowHost.eager, kSlowHost.replay);
    ASSERT_LE(time.elapsed, busy + issuing + arrivals * kSlowHost.arrival) << seed;
    ASSERT_EQ(std::accumulate(time.classes.begin(), time.classes.end(), Picoseconds{0}), busy) << seed;
  }
}

// Longer or additional kernels never end sooner.
TEST(GpuTimeline, MoreWorkTakesNoLessTime) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    const std::vector<Call> calls = random_calls(seed);
    Timeline less(kSlowHost), more(kSlowHost);
    for (size_t i = 0; i < calls.size(); ++i) {
      run(less, calls[i]);
      Call longer = calls[i];
      longer.duration += static_cast<Picoseconds>((seed + i) % 7);
      run(more, longer);
      if ((seed + i) % 5 == 0) more.launch(longer.other, kernel(3));
      for (const StreamKind stream : kAllStreams) ASSERT_GE(more.record(stream).at, less.record(stream).at) << seed;
      ASSERT_GE(more.done(), less.done()) << seed;
    }
  }
}

// A step that begins when everything is done takes the same time whenever it runs, and the sum of steps equals the
// whole.
TEST(GpuTimeline, EqualStepsTakeEqualTime) {
  const std::vector<Call> calls = random_calls(7);
  Timeline parts(kSlowHost), whole(kSlowHost);
  const auto step = [&](Timeline& timeline) {
    for (const Call& call : calls) run(timeline, call);
    for (const StreamKind stream : kAllStreams) timeline.synchronize(stream);
  };
  step(parts);
  step(whole);
  PredictedTime sum = parts.take();
  Picoseconds second = 0;
  for (int i = 0; i < 1000; ++i) {
    step(parts);
    step(whole);
    const PredictedTime time = parts.take();
    if (i == 0) second = time.elapsed;
    ASSERT_EQ(time.elapsed, second);
    sum += time;
  }
  const PredictedTime all = whole.take();
  EXPECT_EQ(sum.elapsed, all.elapsed);
  EXPECT_EQ(sum.launches, all.launches);
  EXPECT_EQ(sum.at_peak, all.at_peak);
  for (const StreamKind stream : kAllStreams) EXPECT_EQ(total(sum.of(stream)), total(all.of(stream)));
}

}  // namespace
}  // namespace runner::backends::gpu
