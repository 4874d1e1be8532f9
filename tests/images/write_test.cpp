// PNG files and contact sheets.
#include <gtest/gtest.h>

#include "runner/images/contact_sheet.h"
#include "runner/images/write_png.h"
#include "tests/images/pixels.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"

namespace runner::images {
namespace {

TEST(WritingPng, ReadingGivesTheSameImage) {
  for (const char* const name : {"ycc_420.jpg", "rgb_8.png", "rgb_1x1.png", "palette_8.png"}) {
    const Image image = decode_file(figure_file(name)).image;
    const Image again = decode_text(png_bytes(image)).image;
    EXPECT_EQ(again.height, image.height) << name;
    EXPECT_EQ(again.width, image.width) << name;
    EXPECT_EQ(again.rgb, image.rgb) << name;
  }
}

TEST(WritingPng, BytesAreTheSameEachTime) {
  const Image image = decode_file(figure_file("ycc_420.jpg")).image;
  EXPECT_EQ(png_bytes(image), png_bytes(image));
}

TEST(WritingPng, ReplacesImagesAndNothingElse) {
  const support::TempFolder folder;
  const Image image = grey_image(1, 2, {3, 4});
  write_png(folder / "a.png", grey_image(1, 1, {9}));
  write_png(folder / "a.png", image);
  EXPECT_EQ(decode_file(folder / "a.png").image.rgb, image.rgb);
  support::write_text(folder / "notes.txt", "some notes\n");
  EXPECT_EQ(support::thrown_text([&] { write_png(folder / "notes.txt", image); }, ErrorKind::kUsage),
            (folder / "notes.txt").string() + " exists and is text, not PNG; choose another file or remove it");
}

TEST(WritingPng, AFullDiskIsAnError) {
  EXPECT_EQ(support::thrown_text([] { write_png("/dev/full", grey_image(1, 1, {0})); }, ErrorKind::kRun),
            "cannot write /dev/full: No space left on device");
}

TEST(ContactSheet, SmallImagesAreEnlargedByAWholeFactor) {
  const Image sheet = contact_sheet(std::vector<Image>{grey_image(28, 28, Bytes(784, 7))});
  EXPECT_EQ(sheet.height, 3 * 28 + 2);
  EXPECT_EQ(sheet.width, 3 * 28 + 2);
  EXPECT_EQ(*sheet.pixel(0, 0), 128);
  EXPECT_EQ(*sheet.pixel(1, 1), 7);
  EXPECT_EQ(*sheet.pixel(84, 84), 7);
  EXPECT_EQ(*sheet.pixel(85, 85), 128);
}

TEST(ContactSheet, ImagesAreInRowsFromLeftToRight) {
  std::vector<Image> images;
  for (uint8_t i = 0; i < 5; ++i) images.push_back(grey_image(100, 50, Bytes(5000, i)));
  const Image sheet = contact_sheet(images);  // 3 columns, 2 rows
  EXPECT_EQ(sheet.height, 2 * 101 + 1);
  EXPECT_EQ(sheet.width, 3 * 51 + 1);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(*sheet.pixel(i / 3 * 101 + 50, i % 3 * 51 + 25), i);
  EXPECT_EQ(*sheet.pixel(150, 130), 128);  // the empty cell
}

TEST(ContactSheet, CellsHaveTheSizeOfTheLargestImage) {
  const Image sheet = contact_sheet(std::vector<Image>{grey_image(1, 2, {5, 6}), grey_image(96, 40, Bytes(3840, 9))});
  EXPECT_EQ(sheet.height, 98);
  EXPECT_EQ(sheet.width, 2 * 41 + 1);
  EXPECT_EQ(*sheet.pixel(1, 2), 6);
  EXPECT_EQ(*sheet.pixel(2, 1), 128);
}

TEST(ContactSheet, RefusesSheetsBeyondTheLimit) {
  const std::vector<Image> images{black_image(1, 20'000), black_image(20'000, 1)};
  EXPECT_EQ(support::thrown_text([&] { contact_sheet(images); }, ErrorKind::kData),
            "a contact sheet of 2 images of 20000 x 20000 pixels (height x width) is too large");
}

}  // namespace
}  // namespace runner::images
