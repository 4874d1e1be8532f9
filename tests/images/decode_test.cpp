// What single pixels become. Files that Pillow reads are in figures_test.cpp, damaged files in damage_test.cpp.
#include "runner/images/decode.h"

#include <gtest/gtest.h>

#include "tests/images/pixels.h"
#include "tests/images/png_builder.h"
#include "tests/support/temp_folder.h"

namespace runner::images {
namespace {

Bytes rgb_of(const std::string& file) {
  const Image image = decode_text(file).image;
  return {image.rgb.begin(), image.rgb.end()};
}

TEST(Decoding, SamplesOf16BitsBecomeTheirHighByte) {
  const std::string row =
      std::string("\0", 1) + std::string("\0\0\0\xff\1\0\3\xe8\x80\0\xff\xff", 12);  // 0 255 256 1000 …
  EXPECT_EQ(reds(decode_text(png_file(1, 6, 16, kGreyPng, row)).image), (Bytes{0, 0, 1, 3, 128, 255}));
  const std::string pixel("\0\1\0\x12\xff\0\xff", 7);
  EXPECT_EQ(rgb_of(png_file(1, 1, 16, kRgbPng, pixel)), (Bytes{1, 18, 0}));
}

TEST(Decoding, PalettesBecomeColours) {
  const std::string palette = chunk("PLTE", {"\x0a\x14\x1e\xc8\x64\x32", 6});
  const std::string transparency = chunk("tRNS", {"\0", 1});
  EXPECT_EQ(rgb_of(png_file(1, 2, 8, kPalettePng, {"\0\0\1", 3}, palette)), (Bytes{10, 20, 30, 200, 100, 50}));
  EXPECT_EQ(rgb_of(png_file(1, 2, 1, kPalettePng, {"\0\x40", 2}, palette + transparency)),
            (Bytes{10, 20, 30, 200, 100, 50}));
}

TEST(Decoding, AlphaIsDroppedWithoutBlending) {
  EXPECT_EQ(rgb_of(png_file(1, 1, 8, kRgbaPng, {"\0\xff\0\0\0", 5})), (Bytes{255, 0, 0}));
  EXPECT_EQ(rgb_of(png_file(1, 1, 8, kGreyAlphaPng, {"\0\x50\0", 3})), (Bytes{80, 80, 80}));
}

TEST(Decoding, GreyOfFewBitsFillsTheRange) {
  EXPECT_EQ(reds(decode_text(png_file(1, 4, 2, kGreyPng, {"\0\x1b", 2})).image), (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(reds(decode_text(png_file(1, 2, 1, kGreyPng, {"\0\x40", 2})).image), (Bytes{0, 255}));
  EXPECT_EQ(reds(decode_text(png_file(1, 2, 4, kGreyPng, {"\0\x1f", 2})).image), (Bytes{17, 255}));
}

TEST(Decoding, EachOrientationPutsTheBrightPixelWhereExifSays) {
  const struct {
    int64_t height, width, y, x;
  } expected[] = {{2, 3, 0, 0}, {2, 3, 0, 2}, {2, 3, 1, 2}, {2, 3, 1, 0},
                  {3, 2, 0, 0}, {3, 2, 0, 1}, {3, 2, 2, 1}, {3, 2, 2, 0}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const DecodedImage png = decode_file(figure_file("exif_" + std::to_string(orientation) + ".png"));
    const auto& [height, width, y, x] = expected[orientation - 1];
    EXPECT_EQ(png.info.orientation, orientation);
    EXPECT_EQ(png.image.height, height) << orientation;
    EXPECT_EQ(png.image.width, width) << orientation;
    EXPECT_EQ(*png.image.pixel(y, x), 255) << orientation;
    // The JPEG has blocks of 8 x 8 pixels in place of the pixels.
    const DecodedImage jpeg = decode_file(figure_file("exif_" + std::to_string(orientation) + ".jpg"));
    EXPECT_EQ(jpeg.image.height, 8 * height) << orientation;
    EXPECT_EQ(jpeg.image.width, 8 * width) << orientation;
    EXPECT_GT(*jpeg.image.pixel(8 * y + 4, 8 * x + 4), 250) << orientation;
  }
}

// Returns the only pixel of a JPEG file with four inks.
Bytes middle_of(const std::string& name) {
  const Image image = decode_file(figure_file(name)).image;
  const uint8_t* const pixel = image.pixel(image.height / 2, image.width / 2);
  return {pixel, pixel + 3};
}

TEST(Decoding, RedInksAreRed) {
  for (const char* const name : {"cmyk_red.jpg", "ycck_red.jpg"}) {
    const Bytes pixel = middle_of(name);
    EXPECT_GT(pixel[0], 250) << name;
    EXPECT_LT(pixel[1], 5) << name;
    EXPECT_LT(pixel[2], 5) << name;
  }
}

TEST(Decoding, InfoSaysWhatTheFileStores) {
  const struct {
    const char* name;
    FileFormat format;
    ColorKind color;
    int bits;
    bool has_trns, is_corrupt;
  } rows[] = {
      {"grey_1.png", FileFormat::kPng, ColorKind::kGrey, 1, false, false},
      {"grey_16_trns.png", FileFormat::kPng, ColorKind::kGrey, 16, true, false},
      {"palette_4_trns.png", FileFormat::kPng, ColorKind::kPalette, 4, true, false},
      {"grey_alpha_8.png", FileFormat::kPng, ColorKind::kGreyAlpha, 8, false, false},
      {"rgba_16_interlaced.png", FileFormat::kPng, ColorKind::kRgba, 16, false, false},
      {"rgb_8.png", FileFormat::kPng, ColorKind::kRgb, 8, false, false},
      {"grey.jpg", FileFormat::kJpeg, ColorKind::kGrey, 8, false, false},
      {"ycc_420.jpg", FileFormat::kJpeg, ColorKind::kRgb, 8, false, false},
      {"ycck.jpg", FileFormat::kJpeg, ColorKind::kCmyk, 8, false, false},
      {"early_end.jpg", FileFormat::kJpeg, ColorKind::kRgb, 8, false, true},
      {"junk_before_marker.jpg", FileFormat::kJpeg, ColorKind::kGrey, 8, false, false},
  };
  for (const auto& row : rows) {
    const ImageInfo info = decode_file(figure_file(row.name)).info;
    EXPECT_EQ(info.format, row.format) << row.name;
    EXPECT_EQ(info.color, row.color) << row.name;
    EXPECT_EQ(info.bits, row.bits) << row.name;
    EXPECT_EQ(info.has_trns, row.has_trns) << row.name;
    EXPECT_EQ(info.is_corrupt, row.is_corrupt) << row.name;
  }
}

TEST(Decoding, TheFirstBytesDecideAndNotTheEnding) {
  const support::TempFolder folder;
  support::write_text(folder / "photo.png", support::read_text(figure_file("grey.jpg")));
  EXPECT_EQ(decode_file(folder / "photo.png").info.format, FileFormat::kJpeg);
}

TEST(Decoding, MetadataThatCannotBeReadHaveNoOrientation) {
  const std::string exif("MM\0*\0\0\0\x8\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0", 26);
  const auto orientation = [](const std::string& extra) {
    return decode_text(png_file(1, 1, 8, kGreyPng, {"\0a", 2}, extra)).info.orientation;
  };
  EXPECT_EQ(orientation(chunk("eXIf", exif)), 6);
  EXPECT_EQ(orientation(chunk("eXIf", "not EXIF")), 1);
  EXPECT_EQ(orientation(chunk("eXIf", exif.substr(0, 20))), 1);
  EXPECT_EQ(orientation(chunk("tEXt", std::string("Raw profile type exif\0\nexif\n26\nzz", 34))), 1);
  EXPECT_EQ(orientation(chunk("zTXt", std::string("Raw profile type exif\0\0no zlib", 30))), 1);
  EXPECT_EQ(orientation(chunk("iTXt", "XML:com.adobe.xmp")), 1);
}

TEST(Decoding, BytesAfterTheImageAreIgnored) {
  const std::string png = png_file(1, 2, 8, kGreyPng, {"\0\7\x8", 3});
  EXPECT_EQ(rgb_of(png + "more bytes"), rgb_of(png));
}

}  // namespace
}  // namespace runner::images
