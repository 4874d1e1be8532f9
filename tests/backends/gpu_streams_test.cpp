// Streams of an emulated GPU: order within each, waits between them, errors that void later commands, and a host that
// neither hangs nor gets an error twice.
#include <filesystem>
#include <functional>
#include <iterator>
#include <random>
#include <semaphore>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/gpu/streams.h"
#include "schema/base/error.h"
#include "tests/support/threads.h"
#include "tests/support/thrown_text.h"

namespace runner::backends::gpu {
namespace {

// Launches that run a function and record their order.
struct Recorder : Launchable {
  std::function<void(int32_t)> what = [](int32_t) {};
  std::vector<int32_t> done;

  void launch(int32_t index) override {
    what(index);
    done.push_back(index);
  }
  std::string describe(int32_t index) const override { return fmt::format("work {}", index); }
};

std::shared_ptr<StreamEvent> event_of(const std::string& device) {
  return std::make_shared<StreamEvent>(device);
}

class GpuStreams : public ::testing::TestWithParam<bool> {
 protected:
  Streams::Options options() const { return {.name = "gpu 2", .own_thread = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(OwnThread, GpuStreams, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

TEST_P(GpuStreams, ExecuteEachStreamInOrder) {
  Recorder work;
  Streams streams(options());
  std::vector<int32_t> wanted;
  for (int32_t i = 0; i < 10000; ++i) {  // more than fit into the ring
    streams.launch(StreamKind::kCompute, work, i);
    wanted.push_back(i);
  }
  streams.synchronize();
  EXPECT_EQ(work.done, wanted);
}

TEST_P(GpuStreams, ExecuteSeveralLaunchesOfOneCommand) {
  Recorder work;
  Streams streams(options());
  for (int32_t i = 0; i < 30000; i += 3) streams.launch_all(StreamKind::kCompute, work, i, i + 3);
  streams.synchronize();
  ASSERT_EQ(work.done.size(), 30000u);
  EXPECT_TRUE(std::ranges::is_sorted(work.done));
}

TEST(GpuStreamsOfAHost, ExecuteCopiesBetweenLaunchesOfOneCommand) {
  Recorder work;
  Streams streams({.own_thread = false});
  work.what = [&](int32_t index) {
    if (index == 1) streams.launch(StreamKind::kCopyIn, work, 100);
  };
  streams.launch_all(StreamKind::kCompute, work, 0, 4);
  streams.synchronize();
  EXPECT_EQ(work.done, (std::vector<int32_t>{0, 1, 100, 2, 3}));
}

TEST_P(GpuStreams, SkipLaunchesAfterAFailureInOneCommand) {
  Recorder work;
  Streams streams(options());
  work.what = [](int32_t index) { RUN_CHECK(index != 1, ErrorKind::kRun, "no"); };
  streams.launch_all(StreamKind::kCompute, work, 0, 4);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "no\n  note: on gpu 2");
  EXPECT_EQ(work.done, std::vector<int32_t>{0});
}

TEST_P(GpuStreams, WaitForEachOther) {
  Recorder work;
  Streams streams(options());
  const auto copied_event = event_of("gpu 2"), computed_event = event_of("gpu 2");
  StreamEvent &copied = *copied_event, &computed = *computed_event;
  for (int32_t i = 0; i < 100; ++i) {
    // The kernel is queued first, but the copy runs first.
    streams.wait(StreamKind::kCompute, copied, copied.recorded() + 1);
    streams.launch(StreamKind::kCompute, work, 3 * i + 1);
    streams.launch(StreamKind::kCopyIn, work, 3 * i);
    streams.record(StreamKind::kCopyIn, copied);
    streams.wait(StreamKind::kCopyOut, computed, streams.record(StreamKind::kCompute, computed));
    streams.launch(StreamKind::kCopyOut, work, 3 * i + 2);
    streams.wait(StreamKind::kCopyIn, computed, computed.recorded());
  }
  streams.synchronize();
  ASSERT_EQ(work.done.size(), 300u);
  std::vector<size_t> at(300);
  for (size_t i = 0; i < 300; ++i) at[static_cast<size_t>(work.done[i])] = i;
  for (size_t i = 0; i < 300; i += 3) {
    EXPECT_LT(at[i], at[i + 1]);
    EXPECT_LT(at[i + 1], at[i + 2]);
    if (i > 0) {
      EXPECT_LT(at[i - 2], at[i]);
    }
  }
}

TEST_P(GpuStreams, HostWaitsEndAtTheEventEvenIfMoreIsQueued) {
  std::binary_semaphore gate(0);
  Recorder first, second;
  second.what = [&](int32_t) { gate.acquire(); };
  Streams streams(options());
  const auto event_event = event_of(streams.name());
  StreamEvent& event = *event_event;
  streams.launch(StreamKind::kCompute, first, 0);
  const uint64_t reached = streams.record(StreamKind::kCompute, event);
  streams.launch(StreamKind::kCompute, second, 1);
  streams.synchronize(event, reached);
  EXPECT_EQ(first.done, std::vector<int32_t>{0});
  gate.release();
  streams.synchronize();
  EXPECT_EQ(second.done, std::vector<int32_t>{1});
}

// Hosts that the device wakes: their polling interval is too long to find out by themselves.
class GpuHostsThatAreWoken : public ::testing::TestWithParam<bool> {
 protected:
  Streams::Options options() const {
    return {.name = "gpu 2", .own_thread = true, .spins = GetParam(), .nap = std::chrono::minutes(1)};
  }
  // Waits until the device has begun, so that the host does not execute the command itself.
  static void await_begin(const Streams& streams) {
    while (streams.running().empty()) std::this_thread::yield();
  }
  std::chrono::steady_clock::duration elapsed() const { return std::chrono::steady_clock::now() - began_; }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};
INSTANTIATE_TEST_SUITE_P(Spins, GpuHostsThatAreWoken, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

// The first launch takes longer than a host spins; the second ends only after the host has returned.
TEST_P(GpuHostsThatAreWoken, AtAnEventEvenIfMoreIsQueued) {
  std::binary_semaphore gate(0);
  std::atomic<bool> may_end = false;
  Recorder first, second;
  first.what = [&](int32_t) {
    while (!may_end) std::this_thread::yield();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  second.what = [&](int32_t) { gate.acquire(); };
  Streams streams(options());
  const auto event = event_of(streams.name());
  for (int32_t round = 0; round < 10; ++round) {
    may_end = false;
    streams.launch(StreamKind::kCompute, first, round);
    const uint64_t reached = streams.record(StreamKind::kCompute, *event);
    await_begin(streams);
    streams.launch(StreamKind::kCompute, second, round);
    may_end = true;
    streams.synchronize(*event, reached);
    EXPECT_EQ(second.done.size(), static_cast<size_t>(round));
    gate.release();
    streams.synchronize();
  }
  EXPECT_LT(elapsed(), std::chrono::seconds(30));
}

TEST_P(GpuHostsThatAreWoken, WhenAFullStreamHasRoomAgain) {
  std::binary_semaphore is_full(0), continues(0);
  Recorder work;
  work.what = [&](int32_t index) {
    if (index == 0) is_full.acquire();
    if (index == 3000) continues.acquire();
  };
  Streams streams(options());
  const auto event = event_of(streams.name());
  streams.launch(StreamKind::kCompute, work, 0);
  streams.record(StreamKind::kCompute, *event);
  await_begin(streams);
  for (int32_t i = 1; i < 5000; ++i) {
    if (i == 4000) is_full.release();
    streams.launch(StreamKind::kCompute, work, i);
  }
  continues.release();
  streams.synchronize();
  EXPECT_EQ(work.done.size(), 5000u);
  EXPECT_LT(elapsed(), std::chrono::seconds(30));
}

TEST_P(GpuStreams, SkipCommandsAfterAnErrorAndThrowItOnce) {
  Recorder bad, good;
  bad.what = [](int32_t) { throw Error(ErrorKind::kRun, "log of -1", {"hook.lua", 4, 0}); };
  Streams streams(options());
  const auto event_event = event_of(streams.name());
  StreamEvent& event = *event_event;
  streams.launch(StreamKind::kCompute, good, 0);
  streams.launch(StreamKind::kCompute, bad, 1);
  const uint64_t failed = streams.record(StreamKind::kCompute, event);
  streams.launch(StreamKind::kCompute, good, 2);
  streams.wait(StreamKind::kCopyOut, event, failed);
  streams.launch(StreamKind::kCopyOut, good, 3);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(event, failed); }),
            "hook.lua:4: log of -1\n  note: on gpu 2");
  EXPECT_EQ(good.done, std::vector<int32_t>{0});
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "");
  streams.launch(StreamKind::kCompute, good, 4);
  streams.synchronize();
  EXPECT_EQ(good.done, (std::vector<int32_t>{0, 4}));
}

TEST_P(GpuStreams, WrapForeignExceptions) {
  Recorder bad;
  bad.what = [](int32_t) { throw std::bad_alloc(); };
  Streams streams(options());
  streams.launch(StreamKind::kCompute, bad, 0);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "gpu 2 has failed: std::bad_alloc");
}

TEST_P(GpuStreams, RefuseEventsOfOtherDevices) {
  Streams streams(options()), other({.name = "gpu 5", .own_thread = GetParam()});
  const auto event_event = event_of(other.name());
  StreamEvent& event = *event_event;
  EXPECT_EQ(support::thrown_text([&] { streams.record(StreamKind::kCompute, event); }),
            "an event of gpu 5 cannot be recorded in a stream of gpu 2");
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(event, 1); }),
            "the host cannot wait for an event of gpu 5 at gpu 2");
}

TEST_P(GpuStreams, DropPendingCommandsOnDestruction) {
  Recorder work;
  {
    Streams streams(options()), other(options());
    const auto never_event = event_of(other.name());
    StreamEvent& never = *never_event;
    streams.wait(StreamKind::kCompute, never, 1);
    streams.launch(StreamKind::kCompute, work, 0);
  }
  EXPECT_TRUE(work.done.empty());
}

TEST(GpuStreamWaits, WorkAcrossDevices) {
  Recorder first, second;
  Streams one({.name = "gpu 0"}), two({.name = "gpu 1"});
  const auto ready_event = event_of(one.name());
  StreamEvent& ready = *ready_event;
  for (int32_t i = 0; i < 1000; ++i) {
    two.wait(StreamKind::kCommunication, ready, static_cast<uint64_t>(i) + 1);
    two.launch(StreamKind::kCommunication, second, i);
  }
  for (int32_t i = 0; i < 1000; ++i) {
    first.what = [&](int32_t index) { EXPECT_LE(static_cast<int32_t>(second.done.size()), index); };
    one.launch(StreamKind::kCompute, first, i);
    one.record(StreamKind::kCompute, ready);
    one.synchronize();
  }
  two.synchronize();
  EXPECT_EQ(second.done.size(), 1000u);
}

// A lost device does nothing more, even if its launch ends later: queued commands may refer to freed memory. Its thread
// ends.
TEST(GpuStreamWaits, GiveUpOnAHangingDevice) {
  std::binary_semaphore gate(0);
  Recorder work;
  work.what = [&](int32_t) { gate.acquire(); };
  Streams streams({.name = "gpu 1", .patience = std::chrono::milliseconds(100)});
  const int64_t threads = support::threads_of_process();
  const auto event_event = event_of(streams.name());
  StreamEvent& event = *event_event;
  streams.launch(StreamKind::kCompute, work, 7);
  streams.launch(StreamKind::kCompute, work, 8);
  const uint64_t end = streams.record(StreamKind::kCompute, event);
  while (streams.running().empty()) std::this_thread::yield();  // otherwise the host would execute it
  const char* const error = "gpu 1 has not responded for 100 ms; it executes work 7";
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(event, end); }), error);
  gate.release();
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(event, end); }), error);
  while (!streams.running().empty()) std::this_thread::yield();
  EXPECT_EQ(support::thrown_text([&] { streams.finish(); }), error);
  EXPECT_EQ(work.done, std::vector<int32_t>{7});
  EXPECT_FALSE(event.has_reached(end));
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (support::threads_of_process() == threads && std::chrono::steady_clock::now() < latest)
    std::this_thread::yield();
  EXPECT_LT(support::threads_of_process(), threads);
}

TEST(GpuStreamWaits, StopWithoutALaunchThatNeverEnds) {
  std::binary_semaphore gate(0);
  Recorder work;
  work.what = [&](int32_t) { gate.acquire(); };
  Streams streams({.name = "gpu 1", .patience = std::chrono::milliseconds(100)});
  streams.launch(StreamKind::kCompute, work, 7);
  streams.record(StreamKind::kCompute, *event_of(streams.name()));
  while (streams.running().empty()) std::this_thread::yield();
  EXPECT_FALSE(streams.stop());
  EXPECT_EQ(streams.running(), "gpu 1 is at work 7");
  gate.release();
  while (!streams.stop()) std::this_thread::yield();
}

// A device that waits for another one notices that the other has failed.
TEST(GpuStreamWaits, GiveUpWhenOtherDevicesHaveFailed) {
  std::atomic<bool> has_failed = false;
  const auto check = [&] { RUN_CHECK(!has_failed, ErrorKind::kRun, "rank 0 has failed"); };
  Recorder work;
  const auto never = event_of("gpu 0");
  for (const bool own_thread : {false, true}) {
    has_failed = false;
    Streams streams({.name = "gpu 1", .own_thread = own_thread, .check_others = check});
    streams.wait(StreamKind::kCompute, *never, 1);
    streams.launch(StreamKind::kCompute, work, 0);
    std::thread other([&] { has_failed = true; });
    EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "rank 0 has failed");
    other.join();
    never->reach(own_thread ? 1 : 0);
    EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "rank 0 has failed");
  }
  EXPECT_TRUE(work.done.empty());
}

// Whatever a launch throws, the executing thread, of the device or the host, continues.
TEST_P(GpuStreams, SurviveAnyThrownType) {
  Recorder work;
  Streams streams(options());
  work.what = [](int32_t index) {
    if (index == 1) throw 1;
    if (index == 2) throw std::runtime_error("broken");
  };
  streams.launch(StreamKind::kCompute, work, 1);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "gpu 2 has failed");
  streams.launch(StreamKind::kCompute, work, 2);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }), "gpu 2 has failed: broken");
  streams.launch(StreamKind::kCompute, work, 3);
  streams.synchronize();
  EXPECT_EQ(work.done, std::vector<int32_t>{3});
}

TEST(GpuStreamWaits, GiveUpOnAnEventThatIsNeverRecorded) {
  Streams one({.name = "gpu 0"}), two({.name = "gpu 1", .patience = std::chrono::milliseconds(100)});
  const auto never_event = event_of(one.name());
  StreamEvent& never = *never_event;
  two.wait(StreamKind::kCommunication, never, 1);
  EXPECT_EQ(support::thrown_text([&] { two.synchronize(); }),
            "gpu 1 has not responded for 100 ms; its communication stream waits for gpu 0");
}

// Waits for other streams of the same device, which wait for the other device themselves, are not reported.
TEST_P(GpuStreams, ReportWhichOtherDeviceIsAwaited) {
  Recorder work;
  const auto never = event_of("gpu 5"), reduced = event_of("gpu 2");
  Streams::Options impatient = options();
  impatient.patience = std::chrono::milliseconds(100);
  Streams streams(impatient);
  streams.wait(StreamKind::kCopyIn, *reduced, 1);
  streams.wait(StreamKind::kCompute, *reduced, 1);
  streams.wait(StreamKind::kCommunication, *never, 1);
  streams.record(StreamKind::kCommunication, *reduced);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }),
            "gpu 2 has not responded for 100 ms; its communication stream waits for gpu 5");
}

TEST_P(GpuStreams, ReportWhichOwnEventIsAwaited) {
  const auto never = event_of("gpu 2");
  Streams::Options impatient = options();
  impatient.patience = std::chrono::milliseconds(100);
  Streams streams(impatient);
  streams.wait(StreamKind::kCopyOut, *never, 1);
  EXPECT_EQ(support::thrown_text([&] { streams.synchronize(); }),
            "gpu 2 has not responded for 100 ms; its copy out stream waits for gpu 2");
  Streams idle(impatient);
  EXPECT_EQ(support::thrown_text([&] { idle.synchronize(*never, 1); }),
            "gpu 2 has not responded for 100 ms; its streams are empty");
}

// Launches, some of which fail, on three devices whose streams wait for each other. Written only by the executing
// thread, one thread at a time.
class FlakyRecorder final : public Launchable {
 public:
  void launch(int32_t index) override {
    done.push_back(index);
    if (index % 211 != 210) return;
    ++failures;
    fail(ErrorKind::kRun, "launch {} failed", index);
  }
  std::string describe(int32_t) const override { return "a flaky launch"; }

  std::vector<int32_t> done;
  int64_t failures = 0;
};

struct StressedHost {
  std::unique_ptr<Streams> streams;
  std::shared_ptr<StreamEvent> event;
  std::atomic<uint64_t> recorded{0};
  std::array<Recorder, kStreamCount> work;
  std::array<FlakyRecorder, kStreamCount> flaky;
  int64_t errors = 0;  // errors thrown by synchronize()

  void synchronize() {
    try {
      streams->synchronize();
    } catch (const Error&) {
      ++errors;
    }
  }
};

class GpuStreamsOfDevices : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr size_t kDevices = 3;

  void make_hosts(bool own_thread) {
    for (size_t d = 0; d < kDevices; ++d) {
      hosts_[d].streams =
          std::make_unique<Streams>(Streams::Options{.name = fmt::format("gpu {}", d), .own_thread = own_thread});
      hosts_[d].event = event_of(hosts_[d].streams->name());
    }
  }

  // Launches, records and waits at random; launches of `flaky` sometimes fail. The device is destroyed on return, even
  // if others still query its events.
  void drive(size_t device, bool flaky) {
    constexpr int kSteps = 30000;
    std::mt19937 random(static_cast<uint32_t>(device));
    StressedHost& host = hosts_[device];
    std::array<int32_t, kStreamCount> launched{};
    for (int step = 0; step < kSteps; ++step) {
      const size_t stream = random() % kStreamCount;
      const auto kind = static_cast<StreamKind>(stream);
      switch (random() % 8) {
        case 0: host.recorded.store(host.streams->record(kind, *host.event)); break;
        case 1: {  // only counts already recorded; otherwise two devices could deadlock
          StressedHost& other = hosts_[random() % kDevices];
          host.streams->wait(kind, *other.event, other.recorded.load());
          break;
        }
        case 2:
          if (random() % 16 == 0) host.synchronize();
          break;
        default: {
          Launchable& work = flaky ? static_cast<Launchable&>(host.flaky[stream]) : host.work[stream];
          const auto several = static_cast<int32_t>(1 + random() % 3);
          host.streams->launch_all(kind, work, launched[stream], launched[stream] + several);
          launched[stream] += several;
        }
      }
    }
    host.synchronize();
    host.streams.reset();
    for (size_t stream = 0; stream < kStreamCount && !flaky; ++stream)
      EXPECT_EQ(host.work[stream].done.size(), static_cast<size_t>(launched[stream]));
  }

  void drive_all(bool flaky) {
    make_hosts(GetParam());
    std::vector<std::thread> threads;
    for (size_t d = 0; d < kDevices; ++d) threads.emplace_back([this, d, flaky] { drive(d, flaky); });
    for (std::thread& thread : threads) thread.join();
  }

  std::array<StressedHost, kDevices> hosts_;
};
INSTANTIATE_TEST_SUITE_P(OwnThread, GpuStreamsOfDevices, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Yes" : "No"; });

// No launch is lost, runs twice, or runs before what it waits for.
TEST_P(GpuStreamsOfDevices, KeepOrderUnderRandomLaunches) {
  drive_all(/*flaky=*/false);
  for (const StressedHost& host : hosts_) {
    EXPECT_EQ(host.errors, 0);
    for (const Recorder& work : host.work)
      for (size_t i = 0; i < work.done.size(); ++i) ASSERT_EQ(work.done[i], static_cast<int32_t>(i));
  }
}

// No thread hangs, skipped launches stay skipped, and each failure is thrown once.
TEST_P(GpuStreamsOfDevices, ContinueAfterFailures) {
  drive_all(/*flaky=*/true);
  for (const StressedHost& host : hosts_) {
    int64_t failures = 0;
    for (const FlakyRecorder& work : host.flaky) {
      failures += work.failures;
      EXPECT_TRUE(std::ranges::is_sorted(work.done));
      EXPECT_EQ(std::ranges::adjacent_find(work.done), work.done.end()) << "executed twice";
      EXPECT_GT(work.done.size(), 100U);
    }
    EXPECT_GT(failures, 0);
    EXPECT_EQ(host.errors, failures);
  }
}

}  // namespace
}  // namespace runner::backends::gpu
