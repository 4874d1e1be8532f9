#include "store/run_writer.h"

#include <csignal>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/point_ring.h"
#include "store/queries.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"
#include "tests/support/allocations.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

class RunWriting : public StoreTest {
 protected:
  // Holds the write lock of the store, so that no other connection can commit.
  class Blocker {
   public:
    explicit Blocker(const fs::path& path) : store_(Store::open(path, Access::kWrite)) {}

   private:
    Store store_;
    Transaction writing_{store_.database(), Transaction::Kind::kWrite};
  };

  std::vector<Point> points(const std::string& metric) {
    Store store = open_to_read();
    return metric_points(store, find_run(store, info.uid), metric);
  }

  RunInfo info = sample_run();
};

TEST_F(RunWriting, ReturnsAtOnceAndRecordsTheRun) {
  RunWriter writer(open_to_write(), info);
  EXPECT_EQ(writer.uid(), info.uid);
  const RunHandle run = writer.wait_until_recorded();
  EXPECT_EQ(run.uid, info.uid);
  EXPECT_EQ(run.attempt, 1);
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kRunning);
}

TEST_F(RunWriting, FlushMakesEverythingSubmittedReadable) {
  RunWriter writer(open_to_write(), info);
  const SeriesIndex loss = writer.series("loss");
  EXPECT_EQ(writer.series("loss"), loss);
  for (int64_t round = 0; round < 20; ++round) {
    for (int64_t step = 1; step <= 100; ++step) writer.push(loss, 100 * round + step, 0.5);
    writer.flush();
    EXPECT_EQ(points("loss").size(), static_cast<size_t>(100 * (round + 1)));
  }
  const WriterCounters counters = writer.counters();
  EXPECT_EQ(counters.pushed, 2000);
  EXPECT_EQ(counters.committed, 2000);
  EXPECT_EQ(counters.dropped, 0);
  EXPECT_EQ(counters.failures, 0);
}

TEST_F(RunWriting, CommitsPeriodically) {
  RunWriter writer(open_to_write(), info, {.flush_every = 10ms});
  writer.push(writer.series("loss"), 1, 0.5);
  while (writer.counters().committed == 0) std::this_thread::yield();
  EXPECT_EQ(points("loss").size(), 1u);
}

TEST_F(RunWriting, ManySeriesAndManyPoints) {
  {
    RunWriter writer(open_to_write(), info);
    for (int64_t step = 1; step <= 3000; ++step) {
      for (int metric = 0; metric < 20; ++metric) {
        const SeriesIndex series = writer.series("m" + std::to_string(metric));
        while (!writer.push(series, step, static_cast<double>(step * metric))) std::this_thread::yield();
      }
    }
    writer.finish({RunStatus::kDone, 0, "", "{}"});
  }
  for (int metric = 0; metric < 20; ++metric) {
    const auto curve = points("m" + std::to_string(metric));
    ASSERT_EQ(curve.size(), 3000u);
    for (int64_t step = 1; step <= 3000; ++step) {
      EXPECT_EQ(curve[static_cast<size_t>(step - 1)].value, static_cast<double>(step * metric));
    }
  }
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kDone);
}

// Each series gets its first point while the writer thread drains the ring. In some rounds the name is added between
// the writer's reading of the names and of the points.
TEST_F(RunWriting, NoFirstPointOfASeriesIsLost) {
  constexpr int kSeries = 3000;
  {
    RunWriter writer(open_to_write(), info, {.flush_every = 1h});
    writer.wait_until_recorded();
    for (int metric = 0; metric < kSeries; ++metric) {
      writer.event(Level::kInfo, "wake", "{}");
      writer.push(writer.series("m" + std::to_string(metric)), 1, metric);
    }
    writer.finish({RunStatus::kDone, 0, "", "{}"});
  }
  Store store = open_to_read();
  const std::vector<MetricSummary> metrics = list_metrics(store, find_run(store, info.uid).id);
  ASSERT_EQ(metrics.size(), static_cast<size_t>(kSeries));
  for (const MetricSummary& metric : metrics) {
    EXPECT_EQ(metric.n, 1) << metric.name;
    EXPECT_EQ(metric.name, "m" + std::to_string(static_cast<int>(metric.last)));
  }
}

TEST_F(RunWriting, PointsBeforeACheckpointAreCommittedWithIt) {
  RunWriter writer(open_to_write(), info, {.flush_every = 1h});
  const SeriesIndex loss = writer.series("loss");
  for (int64_t step = 1; step <= 50; ++step) {
    writer.push(loss, step, 0.5);
    StateSnapshot snapshot = writer.snapshot();
    snapshot.header.step = step;
    const std::string weights = std::to_string(step);
    snapshot.add("w", "", bytes_of(weights));
    const StateInfo state = writer.save_state(std::move(snapshot), {.keep_last = 3}).get();
    EXPECT_EQ(state.step, step);
    EXPECT_EQ(points("loss").size(), static_cast<size_t>(step));
  }
  Store store = open_to_read();
  const auto states = list_states(store, find_run(store, info.uid).id);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].step, 50);
  EXPECT_EQ(load_state(store, states[0].id).at("w").bytes.size(), 2u);
}

// Saves are submitted faster than they are written: each waits for the previous one, and memory is reused.
TEST_F(RunWriting, SavesAreSerialized) {
  RunWriter writer(open_to_write(), info);
  std::vector<Outcome<StateInfo>> saves;
  const std::string weights(300'000, 'w');
  for (int64_t step = 1; step <= 5; ++step) {
    StateSnapshot snapshot = writer.snapshot();
    EXPECT_EQ(snapshot.bytes(), 0u);
    snapshot.header.step = step;
    snapshot.add("w", "", bytes_of(weights));
    saves.push_back(writer.save_state(std::move(snapshot)));
  }
  for (int64_t step = 1; step <= 5; ++step) EXPECT_EQ(saves[static_cast<size_t>(step - 1)].get().step, step);
}

TEST_F(RunWriting, KeepsEventsInOrder) {
  RunWriter writer(open_to_write(), info);
  writer.event(Level::kInfo, "start", "{}");
  writer.event(Level::kError, "nan", R"({"step":7})");
  writer.flush();
  Store store = open_to_read();
  const auto events = show_run(store, find_run(store, info.uid)).events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, "start");
  EXPECT_EQ(events[1].level, "error");
  EXPECT_EQ(events[1].json, R"({"step":7})");
  EXPECT_EQ(events[1].attempt, 1);
}

TEST_F(RunWriting, WritesHeartbeats) {
  RunWriter writer(open_to_write(), info, {.flush_every = 5ms, .heartbeat_every = 5ms});
  writer.wait_until_recorded();
  Store store = open_to_read();
  const int64_t first = find_run(store, info.uid).heartbeat_ms;
  while (find_run(store, info.uid).heartbeat_ms == first) std::this_thread::yield();
  EXPECT_GT(find_run(store, info.uid).heartbeat_ms, first);
}

TEST_F(RunWriting, ContinuesAResumedRun) {
  {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex loss = writer.series("loss");
    for (int64_t step = 1; step <= 100; ++step) writer.push(loss, step, 1);
  }
  Store store = open_to_write();
  EXPECT_EQ(find_run(store, info.uid).status, RunStatus::kRunning);  // this process is running and has recorded no end
  AttemptInfo again = info.attempt;
  again.start_step = 60;
  const RunHandle run = begin_attempt(store, info.uid, again);
  {
    RunWriter writer(std::move(store), run);
    EXPECT_EQ(writer.uid(), info.uid);
    const SeriesIndex lr = writer.series("lr"), loss = writer.series("loss");
    for (int64_t step = 61; step <= 120; ++step) {
      writer.push(loss, step, 2);
      writer.push(lr, step, 3);
    }
    writer.finish({RunStatus::kInterrupted, 4, "SIGTERM", "{}"});
  }
  const auto curve = points("loss");
  ASSERT_EQ(curve.size(), 120u);
  for (int64_t step = 1; step <= 120; ++step) EXPECT_EQ(curve[static_cast<size_t>(step - 1)].value, step <= 60 ? 1 : 2);
  Store reader = open_to_read();
  const MetricSummary summary = list_metrics(reader, run.id).at(0);
  EXPECT_EQ(summary.sum, 60 * 1 + 60 * 2);
  EXPECT_EQ(summary.n, 120);
  const RunRow row = find_run(reader, info.uid);
  EXPECT_EQ(row.status, RunStatus::kInterrupted);
  EXPECT_EQ(row.exit_code, 4);
  EXPECT_EQ(row.reason, "SIGTERM");
}

TEST_F(RunWriting, FullRingDropsAndCountsPoints) {
  RunWriter writer(open_to_write(), info, {.flush_every = 1h, .ring_points = 1024});
  const SeriesIndex loss = writer.series("loss");
  writer.wait_until_recorded();
  int64_t refused = 0;
  {
    const Blocker blocker(path);
    for (int64_t step = 1; step <= 100'000; ++step) refused += !writer.push(loss, step, 0.5);
  }
  writer.flush();
  const WriterCounters counters = writer.counters();
  EXPECT_EQ(counters.dropped, refused);
  EXPECT_EQ(counters.pushed, 100'000 - refused);
  EXPECT_EQ(counters.committed, counters.pushed);
  EXPECT_EQ(static_cast<int64_t>(points("loss").size()), counters.committed);
  EXPECT_GT(refused, 90'000);
  EXPECT_TRUE(writer.take_warnings().empty()) << "the trainer warns once with the total";
  Store store = open_to_read();
  EXPECT_EQ(find_run(store, info.uid).dropped_points, refused);
}

TEST_F(RunWriting, DestructorCommitsWithoutAStatus) {
  {
    RunWriter writer(open_to_write(), info, {.flush_every = 1h});
    writer.push(writer.series("loss"), 1, 0.5);
    writer.event(Level::kInfo, "x", "{}");
  }
  EXPECT_EQ(points("loss").size(), 1u);
  EXPECT_EQ(folder.listing(), "runner.db");  // the last connection to close removes the log
}

TEST_F(RunWriting, ReportsWhyTheRunCannotBeRecorded) {
  info.parent = "0000000000";
  RunWriter writer(open_to_write(), info, {.flush_every = 1h});
  const std::string wanted = fmt::format("no run 0000000000 in {} to fork from", path.string());
  EXPECT_EQ(error_of([&] { writer.wait_until_recorded(); }), "not found: " + wanted);
  EXPECT_EQ(error_of([&] { writer.flush(); }), "not found: " + wanted);
  EXPECT_EQ(writer.take_warnings().at(0), wanted + "; metrics are kept in memory until the store is writable again");
}

// The writer thread blocks signals, so that Ctrl-C reaches the training thread.
TEST_F(RunWriting, TheWriterThreadBlocksSignals) {
  RunWriter writer(open_to_write(), info);
  writer.wait_until_recorded();
  int threads = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.substr(0, 7) != "SigBlk:") continue;
      ++threads;
      const uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      EXPECT_TRUE(blocked >> (SIGINT - 1) & blocked >> (SIGTERM - 1) & 1) << line;
    }
  }
  EXPECT_GE(threads, 1);
}

TEST_F(RunWriting, PushAllocatesNothing) {
  RunWriter writer(open_to_write(), info);
  const SeriesIndex loss = writer.series("train/loss_of_a_long_name"), lr = writer.series("lr");
  writer.wait_until_recorded();
  const int64_t before = support::allocations_of_this_thread();
  for (int64_t step = 1; step <= 200'000; ++step) {
    writer.push(loss, step, 0.5);
    writer.push(writer.series("train/loss_of_a_long_name"), step, 0.5);
    writer.push(lr, step, 1e-3);
    if (!writer.take_warnings().empty()) break;
  }
  EXPECT_EQ(support::allocations_of_this_thread(), before);
}

// Runs a child in which seccomp kills the training thread at the first system call other than write and exit.
TEST_F(RunWriting, PushMakesNoSystemCall) {
  int result[2];
  ASSERT_EQ(::pipe(result), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunWriter writer(open_to_write(), info);
    const SeriesIndex loss = writer.series("loss");
    writer.wait_until_recorded();
    const size_t half_a_ring = WriterOptions().ring_points / 2 - 1;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) ::_exit(2);
    int64_t accepted = 0;
    for (size_t step = 1; step <= half_a_ring; ++step) accepted += writer.push(loss, static_cast<int64_t>(step), 0.5);
    static_cast<void>(!::write(result[1], &accepted, sizeof accepted));
    ::syscall(SYS_exit, 0);  // ends the thread, not the process; strict mode does not allow exit_group
  }
  ::close(result[1]);
  int64_t accepted = 0;
  const bool finished = ::read(result[0], &accepted, sizeof accepted) == sizeof accepted;
  ::close(result[0]);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) GTEST_SKIP() << "this kernel has no seccomp";
  EXPECT_TRUE(finished) << "the training thread was killed for a system call";
  EXPECT_EQ(accepted, static_cast<int64_t>(WriterOptions().ring_points / 2 - 1));
}

TEST(PointRing, PassesEverythingInOrder) {
  PointRing ring(64);
  constexpr int64_t kCount = 50'000;
  std::thread producer([&] {
    for (int64_t i = 0; i < kCount; ++i) {
      while (!ring.push({static_cast<int32_t>(i % 7), {i, 2 * i, 0.5 * static_cast<double>(i)}}))
        std::this_thread::yield();
    }
  });
  int64_t next = 0;
  while (next < kCount) {
    const size_t count = ring.drain(SIZE_MAX, [&](const PointRing::Entry& entry) {
      EXPECT_EQ(entry.series, next % 7);
      EXPECT_EQ(entry.point.step, next);
      EXPECT_EQ(entry.point.time_ms, 2 * next);
      ++next;
    });
    if (count == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_EQ(ring.pushed(), kCount);
}

TEST(PointRing, RejectsWhenFullAndReportsHalfFull) {
  PointRing ring(8);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(ring.push({0, {i, 0, 0}}));
    EXPECT_EQ(ring.half_full(), i >= 3);
  }
  EXPECT_FALSE(ring.push({0, {8, 0, 0}}));
  std::vector<int64_t> steps;
  const auto take = [&](const PointRing::Entry& entry) { steps.push_back(entry.point.step); };
  EXPECT_EQ(ring.drain(3, take), 3u);
  EXPECT_TRUE(ring.push({0, {9, 0, 0}}));
  EXPECT_EQ(ring.drain(100, take), 6u);
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 9}));
  EXPECT_EQ(ring.drain(100, take), 0u);
}

}  // namespace
}  // namespace runner::store
