#include "runner/images/decode.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "runner/images/decoders.h"
#include "runner/images/orientation.h"
#include "schema/base/error.h"
#include "schema/base/file.h"

namespace runner::images {
namespace {

// No image has more pixels per byte of its file: a byte of deflate gives at most 1032, each with 8 pixels of one bit. A
// JPEG has at least one bit for 32 x 32 pixels.
constexpr int64_t kMaxPixelsPerByte = int64_t{1032} * 8;

constexpr size_t kMaxFileBytes = size_t{1} << 30;

// Bytes at an offset that identify a file, and what such a file is.
struct Signature {
  size_t offset;
  std::string_view bytes;
  const char* what;
};

constexpr Signature kOthers[] = {
    {0, "GIF8", "a GIF image"},
    {8, "WEBP", "a WebP image"},
    {0, "BM", "a BMP image"},
    {0, {"II*\0", 4}, "a TIFF image"},
    {0, {"MM\0*", 4}, "a TIFF image"},
    {4, "ftypavif", "an AVIF image"},
    {4, "ftypavis", "an AVIF image"},
    {4, "ftyphei", "a HEIC image"},
    {4, "ftyphev", "a HEIC image"},
    {4, "ftypmif1", "a HEIC image"},
    {4, "ftypmsf1", "a HEIC image"},
    {4, "jP  ", "a JPEG 2000 image"},
    {0, {"\xff\x0a", 2}, "a JPEG XL image"},
    {4, "JXL ", "a JPEG XL image"},
    {0, {"\0\0\1\0", 4}, "an ICO image"},
    {0, "8BPS", "a Photoshop image"},
    {0, "<svg", "an SVG image"},
    {0, "%PDF", "a PDF document"},
    {0, "PK\x03\x04", "a ZIP archive"},
    {0, "\x1f\x8b", "a gzip archive"},
    {0, "<!DOCTYPE html", "a web page"},
    {0, "<!doctype html", "a web page"},
    {0, "<html", "a web page"},
    {0, "version https://git-lfs", "a pointer of Git LFS"},
};

bool starts_with(std::string_view bytes, std::span<const unsigned char> signature) {
  return bytes.size() >= signature.size() && std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

std::string in_hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<uint8_t>(byte));
  return text;
}

[[noreturn]] void refuse(std::string_view bytes, const std::string& name) {
  constexpr size_t kShownBytes = 8;
  RUN_CHECK(!bytes.empty(), ErrorKind::kData, "{} is empty; expected a PNG or JPEG image", name);
  for (const Signature& other : kOthers)
    RUN_CHECK(other.offset > bytes.size() || !bytes.substr(other.offset).starts_with(other.bytes), ErrorKind::kData,
              "{} is {}; expected PNG or JPEG", name, other.what);
  fail(ErrorKind::kData, "{} is no PNG or JPEG image: it starts with the bytes {}", name,
       in_hexadecimal(bytes.substr(0, kShownBytes)));
}

}  // namespace

void check_size(int64_t height, int64_t width, size_t file_bytes, const char* format, const std::string& name) {
  RUN_CHECK(height > 0 && width > 0, ErrorKind::kData, "{}: the {} image has {} x {} pixels (height x width)", name,
            format, height, width);
  RUN_CHECK(has_valid_size(height, width), ErrorKind::kData,
            "{}: the {} image has {} x {} pixels (height x width); at most {} pixels are supported", name, format,
            height, width, kMaxPixels);
  RUN_CHECK(height * width / kMaxPixelsPerByte <= static_cast<int64_t>(file_bytes), ErrorKind::kData,
            "{}: cannot decode the {} image: its {} bytes cannot contain {} x {} pixels (height x width)", name, format,
            file_bytes, height, width);
}

DecodedImage decode(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool is_png = starts_with(text, kPngSignature);
  if (!is_png && !starts_with(text, kJpegSignature)) refuse(text, name);
  DecodedImage decoded = is_png ? decode_png(bytes, name) : decode_jpeg(bytes, name);
  decoded.image = turned(std::move(decoded.image), decoded.info.orientation);
  return decoded;
}

std::string read_image_file(const std::string& path) {
  RegularFile file(path);
  std::string bytes;
  RUN_CHECK(file.is_open() && file.read_text(bytes, kMaxFileBytes), ErrorKind::kData, "cannot read the image {}: {}",
            path, file.problem());
  RUN_CHECK(bytes.size() <= kMaxFileBytes, ErrorKind::kData, "{}: an image file may have at most {} bytes", path,
            kMaxFileBytes);
  return bytes;
}

DecodedImage decode_file(const std::string& path) {
  const std::string bytes = read_image_file(path);
  return decode(std::as_bytes(std::span(bytes)), path);
}

}  // namespace runner::images
