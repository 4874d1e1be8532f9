// Images from arbitrary files. Checksums of PNG chunks are made right, so that damage reaches the decoder.
#include <algorithm>
#include <string>

#include <zlib.h>

#include "runner/images/decode.h"
#include "runner/images/resize.h"
#include "runner/images/write_png.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

constexpr int64_t kMaxWrittenPixels = 10'000;

std::vector<uint8_t> with_right_checksums(Bytes input) {
  constexpr uint8_t kSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  constexpr size_t kTypeAt = 4, kDataAt = 8, kChecksumBytes = 4;
  std::vector<uint8_t> file(input.begin(), input.end());
  if (file.size() < sizeof kSignature || !std::equal(std::begin(kSignature), std::end(kSignature), file.begin()))
    return file;
  for (size_t at = sizeof kSignature; file.size() - at >= kDataAt + kChecksumBytes;) {
    const size_t length = uint32_t{file[at]} << 24 | file[at + 1] << 16 | file[at + 2] << 8 | file[at + 3];
    if (length > file.size() - at - kDataAt - kChecksumBytes) break;
    const auto sum = static_cast<uint32_t>(crc32(0, file.data() + at + kTypeAt, static_cast<uInt>(length + kTypeAt)));
    at += kDataAt + length;
    for (int shift = 24; shift >= 0; shift -= 8) file[at++] = static_cast<uint8_t>(sum >> shift);
  }
  return file;
}

void check_image(const std::string& path) {
  const images::DecodedImage decoded = images::decode_file(path);
  const images::Image& image = decoded.image;
  require(images::has_valid_size(image.height, image.width), "the size is not valid");
  require(static_cast<int64_t>(image.rgb.size()) == 3 * image.height * image.width, "not three bytes per pixel");
  require(decoded.info.orientation >= 1 && decoded.info.orientation <= 8, "not an orientation");
  if (image.height * image.width > kMaxWrittenPixels) return;

  const std::string png = images::png_bytes(image);
  require(images::decode(std::as_bytes(std::span(png)), path).image.rgb == image.rgb,
          "a written image is read differently");
  const images::Image small = images::center_crop(images::resized(image, 5, 3), 4, 4);
  require(small.rgb.size() == 48, "not the size that was asked for");
}

}  // namespace

bool image(Bytes input) {
  return accepts(with_right_checksums(input), check_image);
}

}  // namespace runner::fuzz
