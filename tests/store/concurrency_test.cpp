// Several threads and processes use one store at the same time.

#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/queries.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

using namespace std::chrono_literals;

// Commits and checkpoints the log as often as possible, so that they collide.
constexpr WriterOptions kBusy{.flush_every = 1ms, .heartbeat_every = 1ms, .checkpoint_pages = 1};

using Concurrency = StoreTest;

// A reader always sees a prefix of the points written, which grows, and it never waits for the writer.
TEST_F(Concurrency, ReadersSeeAGrowingPrefix) {
  const RunInfo info = sample_run();
  constexpr int64_t kPoints = 20'000;
  RunWriter writer(open_to_write(), info, kBusy);
  const SeriesIndex loss = writer.series("loss");
  writer.push(loss, 1, 1);
  writer.flush();
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      Store store = open_to_read();
      const RunRow run = find_run(store, info.uid);
      size_t seen = 0;
      while (seen < kPoints) {
        const auto points = metric_points(store, run, "loss");
        ASSERT_GE(points.size(), seen);
        seen = points.size();
        for (size_t k = 0; k < seen; ++k) ASSERT_EQ(points[k].step, static_cast<int64_t>(k + 1));
      }
    });
  }
  for (int64_t step = 2; step <= kPoints; ++step) {
    while (!writer.push(loss, step, 1)) std::this_thread::yield();
    if (step % 1000 == 0) writer.flush();
  }
  writer.flush();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(writer.counters().failures, 0);
}

// Stress test of the WAL checkpoint protocol: all processes commit and checkpoint the log concurrently. No data may be
// lost or damaged.
TEST_F(Concurrency, WritersOfSeveralProcessesShareAStore) {
  constexpr int64_t kWriters = 3, kBlocks = 25, kBlock = 50;
  { open_to_write(); }
  std::vector<pid_t> children;
  for (int64_t i = 0; i < kWriters; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    const std::string error = error_of([&] {
      RunWriter writer(open_to_write(), sample_run("writer" + std::to_string(i)), kBusy);
      const SeriesIndex loss = writer.series("loss");
      for (int64_t block = 0; block < kBlocks; ++block) {
        for (int64_t k = 1; k <= kBlock; ++k) writer.push(loss, block * kBlock + k, static_cast<double>(i));
        const std::string weights(5000, static_cast<char>('a' + block % 26));
        StateSnapshot snapshot = writer.snapshot();
        snapshot.header.step = (block + 1) * kBlock;
        snapshot.add("w", "", bytes_of(weights));
        writer.save_state(std::move(snapshot), {.keep_last = 2}).get();
      }
      writer.finish({RunStatus::kDone, 0, "", "{}"});
      for (const std::string& warning : writer.take_warnings()) fail(ErrorKind::kRun, "{}", warning);
    });
    if (error != "no error") std::fprintf(stderr, "%s\n", error.c_str());
    ::_exit(error == "no error" ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  Store store = open_to_write();
  EXPECT_EQ(store.database().query_text("PRAGMA integrity_check"), "ok");
  EXPECT_EQ(list_runs(store).size(), static_cast<size_t>(kWriters));
  for (int64_t i = 0; i < kWriters; ++i) {
    const RunRow run = find_run(store, "writer" + std::to_string(i));
    EXPECT_EQ(run.status, RunStatus::kDone);
    const auto points = metric_points(store, run, "loss");
    ASSERT_EQ(static_cast<int64_t>(points.size()), kBlocks * kBlock);
    for (const Point& point : points) EXPECT_EQ(point.value, static_cast<double>(i));
    EXPECT_EQ(list_states(store, run.id).size(), 2u);
  }
}

}  // namespace
}  // namespace runner::store
