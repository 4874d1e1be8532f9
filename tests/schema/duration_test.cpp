#include "schema/base/duration.h"

#include <cmath>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Duration, MeasuredAndLimits) {
  EXPECT_EQ(duration_text(0), "0.0 ms");
  EXPECT_EQ(duration_text(0.0000037), "3.7 us");
  EXPECT_EQ(duration_text(0.001), "1.0 ms");
  EXPECT_EQ(duration_text(0.0042), "4.2 ms");
  EXPECT_EQ(duration_text(1.844), "1.84 s");
  EXPECT_EQ(duration_text(9.999), "10.0 s");
  EXPECT_EQ(duration_text(99.96), "1 min 40 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(duration_text(INFINITY), "?");
  EXPECT_EQ(duration_text(NAN), "?");
  using std::chrono::milliseconds;
  EXPECT_EQ(limit_text(milliseconds(1)), "1 ms");
  EXPECT_EQ(limit_text(milliseconds(250)), "250 ms");
  EXPECT_EQ(limit_text(milliseconds(1000)), "1 s");
  EXPECT_EQ(limit_text(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(limit_text(milliseconds(600000)), "600 s");
}

}  // namespace
}  // namespace runner
