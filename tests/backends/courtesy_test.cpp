// Backoff: after yielding, a thread gets its core back soon, or it stops yielding for a while.
#include "backends/runtime/courtesy.h"

#include <thread>

#include <gtest/gtest.h>

namespace runner::backends {
namespace {

// Number of checks in a wait that does not succeed. `late`: each check takes longer than kLate.
int looks_in_wait(Courtesy& courtesy, bool late = false) {
  int looks = 0;
  EXPECT_FALSE(courtesy.wait([&] {
    ++looks;
    if (late) std::this_thread::sleep_for(2 * Courtesy::kLate);
    return false;
  }));
  return looks;
}

TEST(Courtesy, ReturnsWhenDone) {
  Courtesy courtesy;
  EXPECT_TRUE(courtesy.wait([] { return true; }));
  int looks = 0;
  EXPECT_TRUE(courtesy.wait([&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST(Courtesy, GivesUpAfterAShortTime) {
  for (int round = 0; round < 100; ++round) {
    Courtesy courtesy;
    EXPECT_LE(looks_in_wait(courtesy), Courtesy::kMostTimes + 1);
  }
}

// Each late return makes more waits sleep at once, up to a limit.
TEST(Courtesy, SleepsAtOnceAfterALateReturn) {
  Courtesy courtesy;
  for (int32_t pause = Courtesy::kFewest; pause < 4 * Courtesy::kMost; pause *= 2) {
    EXPECT_EQ(looks_in_wait(courtesy, /*late=*/true), 2);
    for (int32_t wait = 0; wait < std::min(pause, Courtesy::kMost); ++wait) EXPECT_EQ(looks_in_wait(courtesy), 1);
  }
  EXPECT_GT(looks_in_wait(courtesy), 1);
}

}  // namespace
}  // namespace runner::backends
