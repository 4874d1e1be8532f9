#include "backends/runtime/worker_pool.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace runner::backends {
namespace {

class Pool : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Pool, ::testing::Values(1, 2, 3, 4));

TEST_P(Pool, RunsEveryChunkOnce) {
  WorkerPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (const int64_t chunks : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> counts(static_cast<size_t>(chunks));
    pool.parallel_for(chunks, [&](int64_t chunk) { counts[static_cast<size_t>(chunk)].fetch_add(1); });
    for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
  }
}

// Each of two threads begins with the first chunk of its half.
TEST(PoolShares, ThreadsBeginWithTheirShare) {
  WorkerPool pool(2);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> begun{0};
    pool.parallel_for(16, [&](int64_t chunk) {
      if (chunk % 8 != 0) {
        EXPECT_EQ(begun.load(), 2) << chunk;
        return;
      }
      begun.fetch_add(1);
      while (begun.load() < 2) std::this_thread::yield();
    });
  }
}

// Plain memory that one job writes and the next reads: TSan detects any missing synchronisation between jobs.
TEST_P(Pool, JobsSeeWritesOfEarlierJobs) {
  WorkerPool pool(GetParam());
  std::vector<int64_t> values(16, 0);
  for (int step = 0; step < 3000; ++step) {
    for (int job = 0; job < 3; ++job)
      pool.parallel_for(16, [&](int64_t chunk) {
        const auto next = static_cast<size_t>((chunk + 1) % 16);
        if (job != 1) values[static_cast<size_t>(chunk)] += 1;
        if (job == 1) {
          EXPECT_EQ(values[next], 2 * step + 1);
        }
      });
  }
  for (const int64_t value : values) EXPECT_EQ(value, 6000);
}

TEST_P(Pool, RethrowsTheFirstExceptionAndStaysUsable) {
  WorkerPool pool(GetParam());
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ran{0};
    try {
      pool.parallel_for(64, [&](int64_t chunk) {
        ran.fetch_add(1);
        if (chunk == 5 || chunk == 6) throw std::runtime_error("chunk " + std::to_string(chunk));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_TRUE(error.what() == std::string("chunk 5") || error.what() == std::string("chunk 6"));
    }
    EXPECT_GE(ran.load(), 1);
    std::atomic<int> after{0};
    pool.parallel_for(32, [&](int64_t) { after.fetch_add(1); });
    EXPECT_EQ(after.load(), 32);
  }
}

TEST_P(Pool, AThrowStopsFurtherChunks) {
  WorkerPool pool(GetParam());
  std::atomic<int> ran{0};
  EXPECT_THROW(pool.parallel_for(1 << 20,
                                 [&](int64_t) {
                                   ran.fetch_add(1);
                                   throw std::runtime_error("stop");
                                 }),
               std::runtime_error);
  EXPECT_LE(ran.load(), GetParam());
}

TEST(PoolDeath, NestedUseIsAnAssertionFailure) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorkerPool pool(2);
        pool.parallel_for(2, [&](int64_t) { pool.parallel_for(2, [](int64_t) {}); });
      },
      "internal error");
}

TEST(PoolSharing, TwoThreadsRunAtOnce) {
  WorkerPool pool(2);
  // The second chunk can end only after the first has begun, and vice versa, so two threads are needed.
  std::atomic<int> begun{0};
  pool.parallel_for(2, [&](int64_t) {
    begun.fetch_add(1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (begun.load() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(begun.load(), 2);
  });
}

}  // namespace
}  // namespace runner::backends
