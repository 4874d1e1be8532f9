#include "backends/runtime/execution_thread.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace runner::backends {
namespace {

TEST(ExecutionThreadTest, RunsEachJobOnceAndPublishesItsWrites) {
  int64_t input = 0, done = 0;  // not atomic: the hand-over orders accesses
  int64_t sum = 0, by_thread = 0;
  ExecutionThread thread(
      [&] {
        ++done;
        sum += input;
      },
      "device");
  constexpr int64_t kJobs = 20000;
  for (int64_t job = 1; job <= kJobs; ++job) {
    input = job;
    thread.start();
    if (job % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than the thread spins
    by_thread += thread.finish();
    ASSERT_EQ(done, job);
    ASSERT_FALSE(thread.is_busy());
  }
  EXPECT_EQ(sum, kJobs * (kJobs + 1) / 2);
  EXPECT_GT(by_thread, 0);
  EXPECT_TRUE(thread.finish()) << "nothing is in flight";
}

TEST(ExecutionThreadTest, RunsAJobThatIsNotWaitedFor) {
  int done = 0;
  {
    ExecutionThread thread([&] { ++done; }, "device");
    thread.start();
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace runner::backends
