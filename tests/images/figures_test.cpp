// Pixels and sizes of Pillow and torchvision: tests/images/figures.py has made the files and figures.
#include <string>

#include <gtest/gtest.h>

#include "runner/images/decode.h"
#include "runner/images/resize.h"
#include "schema/base/sha256.h"
#include "tests/images/pixels.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::images {
namespace {

using support::Json;

Json figures(const char* part) {
  return Json::parse(support::read_text(support::source_path("tests/images/figures.json")))[part];
}

std::string digest(const Image& image) {
  return hex(sha256(std::as_bytes(std::span(image.rgb))));
}

void expect_pixels(const Image& image, const Json& row) {
  const auto size = [](int64_t height, int64_t width) {
    return std::to_string(height) + " x " + std::to_string(width);
  };
  EXPECT_EQ(size(image.height, image.width), size(row[1].integer(), row[2].integer())) << row;
  EXPECT_EQ(digest(image), row[3].text()) << row;
}

TEST(ImageFigures, DecodedPixelsAreThoseOfPillow) {
  const std::vector<Json> rows = figures("images").items();
  EXPECT_GE(rows.size(), 95u);
  for (const Json& row : rows) expect_pixels(decode_file(figure_file(row[0].text())).image, row);
}

TEST(ImageFigures, ResizedPixelsAreThoseOfPillow) {
  for (const Json& row : figures("resized").items()) {
    const Image image = decode_file(figure_file(row[0].text())).image;
    expect_pixels(resized(image, row[1].integer(), row[2].integer()), row);
  }
}

TEST(ImageFigures, CroppedPixelsAreThoseOfTorchvision) {
  for (const Json& row : figures("cropped").items()) {
    const Image image = decode_file(figure_file(row[0].text())).image;
    expect_pixels(center_crop(image, row[1].integer(), row[2].integer()), row);
  }
}

TEST(ImageFigures, SizesWithAShorterSideAreThoseOfTorchvision) {
  for (const Json& row : figures("shorter_side").items()) {
    const Image image{.height = row[0].integer(), .width = row[1].integer()};
    const ImageSize size = size_with_shorter_side(image, row[2].integer());
    EXPECT_EQ(size.height, row[3].integer()) << row;
    EXPECT_EQ(size.width, row[4].integer()) << row;
  }
}

}  // namespace
}  // namespace runner::images
