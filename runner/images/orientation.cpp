#include "runner/images/orientation.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace runner::images {
namespace {

// Reads integers of a TIFF structure, which are 0 beyond its end.
class TiffBytes {
 public:
  explicit TiffBytes(std::string_view bytes) : bytes_(bytes), is_big_endian_(bytes.starts_with("MM")) {}

  bool has(size_t offset, size_t count) const { return offset <= bytes_.size() && count <= bytes_.size() - offset; }
  uint32_t integer(size_t offset, size_t count) const {
    if (!has(offset, count)) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = is_big_endian_ ? i : count - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[offset + at]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool is_big_endian_;
};

// Size of the integer types of TIFF; 0 for other types.
size_t integer_bytes(uint32_t type) {
  constexpr uint32_t kShort = 3, kLong = 4, kSignedShort = 8, kSignedLong = 9;
  if (type == kShort || type == kSignedShort) return 2;
  return type == kLong || type == kSignedLong ? 4 : 0;
}

// Returns the first value of the last entry Orientation of the first directory.
std::optional<uint32_t> exif_orientation(std::string_view exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  constexpr uint32_t kOrientationTag = 0x112;
  constexpr size_t kEntryBytes = 12, kInlineBytes = 4;
  for (int i = 0; i < 2 && exif.starts_with(kPrefix); ++i) exif.remove_prefix(kPrefix.size());
  if (!exif.starts_with(std::string_view("II*\0", 4)) && !exif.starts_with(std::string_view("MM\0*", 4))) return {};

  const TiffBytes tiff(exif);
  const size_t directory = tiff.integer(4, 4);
  const size_t count = tiff.integer(directory, 2);
  std::optional<uint32_t> found;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!tiff.has(entry, kEntryBytes)) break;
    if (tiff.integer(entry, 2) != kOrientationTag) continue;
    const size_t bytes = integer_bytes(tiff.integer(entry + 2, 2)), values = tiff.integer(entry + 4, 4);
    if (bytes == 0 || values == 0) continue;
    const size_t at = bytes * values <= kInlineBytes ? entry + 8 : tiff.integer(entry + 8, 4);
    if (tiff.has(at, bytes * values)) found = tiff.integer(at, bytes);
  }
  return found;
}

// Finds tiff:Orientation="6" or <tiff:Orientation>6.
std::optional<uint32_t> xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kTag = "tiff:Orientation";
  for (size_t at = xmp.find(kTag); at != xmp.npos; at = xmp.find(kTag, at)) {
    at += kTag.size();
    const std::string_view rest = xmp.substr(at);
    const size_t digit = rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : rest.size();
    if (digit < rest.size() && rest[digit] >= '0' && rest[digit] <= '9') return rest[digit] - '0';
  }
  return {};
}

}  // namespace

int orientation_of(const Metadata& metadata) {
  std::optional<uint32_t> found = exif_orientation(metadata.exif);
  if (!found) found = xmp_orientation(metadata.xmp);
  return found && *found >= 1 && *found <= 8 ? static_cast<int>(*found) : 1;
}

Image turned(Image image, int orientation) {
  if (orientation == 1) return image;
  // 5 to 8 exchange rows and columns. Then the rows of the result, its columns, or both are in reverse order.
  const bool is_transposed = orientation >= 5;
  const bool reverses_rows = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool reverses_columns = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const int64_t height = is_transposed ? image.width : image.height;
  const int64_t width = is_transposed ? image.height : image.width;
  Image result = black_image(height, width);
  for (int64_t y = 0; y < height; ++y) {
    const int64_t from_y = reverses_rows ? height - 1 - y : y;
    uint8_t* out = result.row(y);
    for (int64_t x = 0; x < width; ++x, out += 3) {
      const int64_t from_x = reverses_columns ? width - 1 - x : x;
      const uint8_t* in = is_transposed ? image.pixel(from_x, from_y) : image.pixel(from_y, from_x);
      out[0] = in[0];
      out[1] = in[1];
      out[2] = in[2];
    }
  }
  return result;
}

}  // namespace runner::images
