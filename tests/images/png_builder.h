// Builds PNG files byte by byte, also wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <zlib.h>

namespace runner::images {

inline std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

inline std::string chunk(std::string_view type, std::string_view data) {
  const std::string content = std::string(type) + std::string(data);
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  return big_endian(static_cast<uint32_t>(data.size())) + content + big_endian(static_cast<uint32_t>(sum));
}

inline std::string deflated(std::string_view bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  EXPECT_EQ(
      compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
      Z_OK);
  out.resize(size);
  return out;
}

inline const std::string kPngStart = "\x89PNG\r\n\x1a\n";

enum PngColor : char { kGreyPng = 0, kRgbPng = 2, kPalettePng = 3, kGreyAlphaPng = 4, kRgbaPng = 6 };

inline std::string png_header(uint32_t height, uint32_t width, int bits, PngColor color, char interlace = 0) {
  const char kinds[] = {static_cast<char>(bits), color, 0, 0, interlace};
  return chunk("IHDR", big_endian(width) + big_endian(height) + std::string(kinds, sizeof kinds));
}

// `rows`: each row after a byte 0, which says that it is not filtered. `before`: chunks before the pixels.
inline std::string png_file(uint32_t height, uint32_t width, int bits, PngColor color, std::string_view rows,
                            const std::string& before = {}) {
  return kPngStart + png_header(height, width, bits, color) + before + chunk("IDAT", deflated(rows)) +
         chunk("IEND", "");
}

}  // namespace runner::images
