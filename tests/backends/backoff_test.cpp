// Backoff: after yielding, a thread gets its core back soon, or it stops yielding for a while.
#include "backends/runtime/backoff.h"

#include <thread>

#include <gtest/gtest.h>

namespace runner::backends {
namespace {

// Number of checks in a wait that does not succeed. `late`: each check takes longer than kLate.
int looks_in_wait(Backoff& backoff, bool late = false) {
  int looks = 0;
  EXPECT_FALSE(backoff.wait([&] {
    ++looks;
    if (late) std::this_thread::sleep_for(2 * Backoff::kLate);
    return false;
  }));
  return looks;
}

TEST(Backoff, ReturnsWhenDone) {
  Backoff backoff;
  EXPECT_TRUE(backoff.wait([] { return true; }));
  int looks = 0;
  EXPECT_TRUE(backoff.wait([&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST(Backoff, GivesUpAfterAShortTime) {
  for (int round = 0; round < 100; ++round) {
    Backoff backoff;
    EXPECT_LE(looks_in_wait(backoff), Backoff::kMaxTimes + 1);
  }
}

// Each late return makes more waits sleep at once, up to a limit.
TEST(Backoff, SleepsAtOnceAfterALateReturn) {
  Backoff backoff;
  for (int32_t pause = Backoff::kMinPause; pause < 4 * Backoff::kMaxPause; pause *= 2) {
    EXPECT_EQ(looks_in_wait(backoff, /*late=*/true), 2);
    for (int32_t wait = 0; wait < std::min(pause, Backoff::kMaxPause); ++wait) EXPECT_EQ(looks_in_wait(backoff), 1);
  }
  EXPECT_GT(looks_in_wait(backoff), 1);
}

}  // namespace
}  // namespace runner::backends
