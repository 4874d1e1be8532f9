#include "runner/images/resize.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/images/pixels.h"
#include "tests/support/thrown_text.h"

namespace runner::images {
namespace {

Image random_image(int64_t height, int64_t width) {
  std::mt19937 random(7);
  Image image = black_image(height, width);
  for (uint8_t& byte : image.rgb) byte = static_cast<uint8_t>(random());
  return image;
}

// The mean of a row's values, weighted by a triangle around the centre of an output pixel.
double expected_value(const Bytes& row, double size, int64_t index) {
  const double scale = static_cast<double>(row.size()) / size, width = std::max(scale, 1.0);
  const double center = (static_cast<double>(index) + 0.5) * scale;
  double sum = 0, weights = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(i) + 0.5 - center) / width);
    sum += weight * row[i];
    weights += weight;
  }
  return sum / weights;
}

TEST(Resizing, ShrinkingUsesAWideFilter) {
  const Image row = grey_image(1, 8, {0, 0, 0, 80, 80, 80, 80, 80});
  EXPECT_EQ(reds(resized(row, 1, 3)), (Bytes{6, 65, 80}));
  const Image column = grey_image(8, 1, {0, 0, 0, 80, 80, 80, 80, 80});
  EXPECT_EQ(reds(resized(column, 3, 1)), (Bytes{6, 65, 80}));
}

TEST(Resizing, EnlargingInterpolatesBetweenPixelCentres) {
  EXPECT_EQ(reds(resized(grey_image(1, 2, {0, 100}), 1, 4)), (Bytes{0, 25, 75, 100}));
}

TEST(Resizing, EachAxisIsTheMeanUnderATriangle) {
  const Image image = random_image(1, 41);
  for (const int64_t width : {1, 2, 7, 20, 40, 42, 100}) {
    const Bytes got = reds(resized(image, 1, width));
    for (int64_t x = 0; x < width; ++x)
      EXPECT_NEAR(got[x], expected_value(reds(image), static_cast<double>(width), x), 0.501) << width << " " << x;
  }
}

TEST(Resizing, TheSameSizeKeepsTheImage) {
  const Image image = random_image(5, 6);
  EXPECT_EQ(resized(image, 5, 6).rgb, image.rgb);
}

Image with_shorter_side(const Image& image, int64_t side) {
  const ImageSize size = size_with_shorter_side(image, side);
  return resized(image, size.height, size.width);
}

TEST(Resizing, TheShorterSideGetsTheSize) {
  const Image image = with_shorter_side(random_image(10, 25), 4);
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.width, 10);
}

TEST(Resizing, RefusesSizesBeyondTheLimit) {
  const Image thin = random_image(100'000, 1);
  EXPECT_EQ(support::thrown_text([&] { with_shorter_side(thin, 512); }, ErrorKind::kData),
            "cannot turn an image of 100000 x 1 into 51200000 x 512 pixels (height x width); expected 1 to 268435456 "
            "pixels");
  EXPECT_EQ(support::thrown_text([&] { resized(thin, 0, 5); }, ErrorKind::kData),
            "cannot turn an image of 100000 x 1 into 0 x 5 pixels (height x width); expected 1 to 268435456 pixels");
  EXPECT_EQ(support::thrown_text([&] { center_crop(thin, -1, 5); }, ErrorKind::kData),
            "cannot turn an image of 100000 x 1 into -1 x 5 pixels (height x width); expected 1 to 268435456 pixels");
}

TEST(CenterCrop, KeepsTheMiddleAndRoundsHalfPixelsToEven) {
  const Image row = grey_image(1, 5, {1, 2, 3, 4, 5});
  EXPECT_EQ(reds(center_crop(row, 1, 3)), (Bytes{2, 3, 4}));
  EXPECT_EQ(reds(center_crop(row, 1, 4)), (Bytes{1, 2, 3, 4}));  // offset 0.5 becomes 0
  EXPECT_EQ(reds(center_crop(row, 1, 2)), (Bytes{3, 4}));        // offset 1.5 becomes 2
}

TEST(CenterCrop, PadsSmallerImagesWithBlack) {
  EXPECT_EQ(reds(center_crop(grey_image(1, 2, {7, 8}), 3, 5)), (Bytes{0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(reds(center_crop(grey_image(1, 4, {5, 6, 7, 8}), 2, 2)), (Bytes{6, 7, 0, 0}));
}

}  // namespace
}  // namespace runner::images
