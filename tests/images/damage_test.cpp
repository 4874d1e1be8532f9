// Files that are refused, and what the messages say.
#include <gtest/gtest.h>

#include "runner/images/decode.h"
#include "schema/base/text.h"
#include "tests/images/pixels.h"
#include "tests/images/png_builder.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"

namespace runner::images {
namespace {

std::string message_of(std::string_view file) {
  return support::thrown_text([&] { decode_text(file, "cat.png"); }, ErrorKind::kData);
}

// A PNG file of 2 x 3 grey pixels.
std::string grey_png() {
  return png_file(2, 3, 8, kGreyPng, {"\0abc\0def", 8});
}

std::string with_flipped_bit(std::string file, size_t at) {
  file[at] = static_cast<char>(file[at] ^ 1);
  return file;
}

std::string jpeg() {
  return support::read_text(figure_file("ycc_420.jpg"));
}

// A JPEG file of another size in its header.
std::string jpeg_of_size(uint16_t height, uint16_t width, const std::string& name = "ycc_420.jpg") {
  std::string file = support::read_text(figure_file(name));
  size_t at = file.find("\xff\xc0");
  if (at == file.npos) at = file.find("\xff\xc2");
  const std::string size = big_endian(static_cast<uint32_t>(height) << 16 | width);
  return file.replace(at + 5, 4, size);
}

TEST(DamagedImages, OtherFormatsAreNamed) {
  const std::pair<std::string, const char*> rows[] = {
      {"GIF89a....", "a GIF image"},
      {"RIFF\x10\1\1\1WEBPVP8 ", "a WebP image"},
      {"BM6...", "a BMP image"},
      {std::string("II*\0....", 8), "a TIFF image"},
      {std::string("MM\0*....", 8), "a TIFF image"},
      {std::string("\0\0\0\x1c"
                   "ftypavif....",
                   16),
       "an AVIF image"},
      {std::string("\0\0\0\x18"
                   "ftypheic....",
                   16),
       "a HEIC image"},
      {std::string("\0\0\0\x18"
                   "ftypmif1....",
                   16),
       "a HEIC image"},
      {"<!DOCTYPE html><html>", "a web page"},
      {"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"},
  };
  for (const auto& [bytes, what] : rows)
    EXPECT_EQ(message_of(bytes), fmt::format("cat.png is {}; expected PNG or JPEG", what));
}

TEST(DamagedImages, FilesThatAreNoImageAreRefused) {
  EXPECT_EQ(message_of(""), "cat.png is empty; expected a PNG or JPEG image");
  EXPECT_EQ(message_of("hello"), "cat.png is no PNG or JPEG image: it starts with the bytes 68 65 6c 6c 6f");
  EXPECT_EQ(message_of("\x89PNG\n\x1a\n......."),  // \r was lost
            "cat.png is no PNG or JPEG image: it starts with the bytes 89 50 4e 47 0a 1a 0a 2e");
}

TEST(DamagedImages, MissingFilesAndFoldersAreNamed) {
  const support::TempFolder folder;
  const std::string missing = folder / "a.png";
  EXPECT_EQ(support::thrown_text([&] { decode_file(missing); }, ErrorKind::kData),
            "cannot read the image " + missing + ": No such file or directory");
  EXPECT_EQ(support::thrown_text([&] { decode_file(folder.path()); }, ErrorKind::kData),
            "cannot read the image " + folder.path().string() + ": it is a folder");
}

TEST(DamagedImages, PngChecksumsAreVerified) {
  const std::string file = grey_png();
  EXPECT_EQ(message_of(with_flipped_bit(file, file.find("IHDR") + 18)),
            "cat.png: cannot decode the PNG image: IHDR: CRC error");
  EXPECT_EQ(message_of(with_flipped_bit(file, file.find("IEND") - 6)),
            "cat.png: cannot decode the PNG image: IDAT: CRC error");
  EXPECT_EQ(message_of(with_flipped_bit(file, file.find("IEND") + 5)),
            "cat.png: cannot decode the PNG image: IEND: CRC error");
  const std::string text = png_file(1, 1, 8, kGreyPng, {"\0a", 2}, chunk("tEXt", "Title"));
  EXPECT_EQ(message_of(with_flipped_bit(text, text.find("Title"))),
            "cat.png: cannot decode the PNG image: tEXt: CRC error");
}

TEST(DamagedImages, TruncatedPngFilesAreRefusedAtEachByte) {
  const std::string file = grey_png();
  for (size_t size = kPngStart.size(); size < file.size(); ++size)
    EXPECT_EQ(message_of(std::string_view(file).substr(0, size)),
              "cat.png: cannot decode the PNG image: the file ends early")
        << size;
}

TEST(DamagedImages, PngFilesWithTooFewPixelsAreRefused) {
  EXPECT_EQ(message_of(png_file(2, 3, 8, kGreyPng, {"\0abc\0d", 6})),
            "cat.png: cannot decode the PNG image: Not enough image data");
  const std::string header = kPngStart + png_header(2, 3, 8, kGreyPng);
  EXPECT_EQ(message_of(header + chunk("IEND", "")), "cat.png: cannot decode the PNG image: IEND: out of place");
  EXPECT_EQ(message_of(header + chunk("IDAT", "no zlib") + chunk("IEND", "")),
            "cat.png: cannot decode the PNG image: IDAT: incorrect header check");
}

TEST(DamagedImages, WrongPngHeadersAreRefused) {
  const auto with_header = [](const std::string& header) {
    return kPngStart + header + chunk("IDAT", deflated({"\0abc\0def", 8})) + chunk("IEND", "");
  };
  EXPECT_EQ(message_of(with_header(png_header(2, 3, 3, kGreyPng))),
            "cat.png: cannot decode the PNG image: Invalid IHDR data");
  EXPECT_EQ(message_of(with_header(png_header(2, 3, 8, PngColor{5}))),
            "cat.png: cannot decode the PNG image: Invalid IHDR data");
  EXPECT_EQ(message_of(with_header(png_header(2, 3, 8, kGreyPng, 2))),
            "cat.png: cannot decode the PNG image: Invalid IHDR data");
  EXPECT_EQ(message_of(with_header(chunk("IHDR", "short"))), "cat.png: cannot decode the PNG image: IHDR: invalid");
  EXPECT_EQ(message_of(with_header(png_header(2, 3, 8, kPalettePng))),
            "cat.png: cannot decode the PNG image: IDAT: Missing PLTE before IDAT");
}

TEST(DamagedImages, SizesAreCheckedBeforeMemoryIsAllocated) {
  EXPECT_EQ(message_of(png_file(0, 3, 8, kGreyPng, "")), "cat.png: the PNG image has 0 x 3 pixels (height x width)");
  EXPECT_EQ(message_of(png_file(3, 0, 8, kGreyPng, "")), "cat.png: the PNG image has 3 x 0 pixels (height x width)");
  EXPECT_EQ(
      message_of(png_file(1 << 20, 1 << 20, 8, kGreyPng, "")),
      "cat.png: the PNG image has 1048576 x 1048576 pixels (height x width); at most 268435456 pixels are supported");
  EXPECT_EQ(message_of(png_file(0xffffffff, 0xffffffff, 1, kGreyPng, "")),
            "cat.png: the PNG image has 4294967295 x 4294967295 pixels (height x width); at most 268435456 pixels are "
            "supported");
  EXPECT_EQ(message_of(png_file(16384, 16384, 8, kRgbPng, "")),
            "cat.png: cannot decode the PNG image: its 65 bytes cannot contain 16384 x 16384 pixels (height x width)");
  EXPECT_EQ(
      message_of(jpeg_of_size(65500, 65500)),
      "cat.png: the JPEG image has 65500 x 65500 pixels (height x width); at most 268435456 pixels are supported");
  EXPECT_EQ(
      message_of(jpeg_of_size(16000, 16000)),
      fmt::format(
          "cat.png: cannot decode the JPEG image: its {} bytes cannot contain 16000 x 16000 pixels (height x width)",
          jpeg().size()));
  EXPECT_EQ(message_of(jpeg_of_size(0, 53)),
            "cat.png: cannot decode the JPEG image: Empty JPEG image (DNL not supported)");
}

TEST(DamagedImages, TruncatedJpegFilesAreRefusedAtEachByte) {
  for (const char* const name : {"ycc_420.jpg", "progressive.jpg", "grey.jpg"}) {
    const std::string file = support::read_text(figure_file(name));
    for (size_t size = 3; size < file.size(); ++size)
      ASSERT_EQ(message_of(std::string_view(file).substr(0, size)),
                "cat.png: cannot decode the JPEG image: the file ends early")
          << name << " " << size;
  }
}

TEST(DamagedImages, JpegFilesThatPillowRefusesAreRefused) {
  std::string file = jpeg();
  const size_t frame = file.find("\xff\xc0");
  file[frame + 4] = 12;
  EXPECT_EQ(message_of(file), "cat.png: cannot decode the JPEG image: Unsupported JPEG data precision 12");
  file = jpeg();
  file[frame + 1] = '\xc3';
  EXPECT_EQ(message_of(file), "cat.png: cannot decode the JPEG image: Unsupported JPEG process: SOF type 0xc3");
  EXPECT_EQ(message_of("\xff\xd8\xff\xd9"), "cat.png: cannot decode the JPEG image: JPEG datastream contains no image");
  EXPECT_EQ(message_of("\xff\xd8\xff\xff"), "cat.png: cannot decode the JPEG image: the file ends early");
}

TEST(DamagedImages, JpegFilesWithManyScansAreRefused) {
  std::string file = support::read_text(figure_file("grey_progressive.jpg"));
  const size_t scan = file.find("\xff\xda");
  const std::string header = file.substr(scan, 10);
  std::string scans;
  for (int i = 0; i < 600; ++i) scans += header;
  EXPECT_EQ(message_of(file.insert(scan, scans)), "cat.png: cannot decode the JPEG image: it has more than 500 scans");
}

TEST(DamagedImages, FlippedBytesNeverPrintAndNeverCrash) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  for (const char* const name :
       {"ycc_420.jpg", "progressive.jpg", "cmyk.jpg", "palette_4_interlaced.png", "rgba_16.png"}) {
    const std::string file = support::read_text(figure_file(name));
    for (size_t at = 0; at < file.size(); ++at) message_of(with_flipped_bit(file, at));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace runner::images
