#include "runner/images/image.h"

#include <gtest/gtest.h>

namespace runner::images {
namespace {

TEST(ImageSize, MustBePositiveAndAtMostTheLimit) {
  EXPECT_TRUE(has_valid_size(1, 1));
  EXPECT_TRUE(has_valid_size(1 << 14, 1 << 14));
  EXPECT_TRUE(has_valid_size(1, kMaxPixels));
  EXPECT_FALSE(has_valid_size((1 << 14) + 1, 1 << 14));
  EXPECT_FALSE(has_valid_size(INT64_MAX, INT64_MAX));
  EXPECT_FALSE(has_valid_size(0, 5));
  EXPECT_FALSE(has_valid_size(5, -1));
}

}  // namespace
}  // namespace runner::images
