#include "runner/data/byte_images.h"

#include <utility>

namespace runner::data {

void write_unit_range(std::span<const uint8_t> bytes, std::span<float> out) {
  for (size_t i = 0; i < bytes.size(); ++i) out[i] = static_cast<float>(bytes[i]) / 255;
}

ByteImages::ByteImages(const backends::Shape& shape, LargeArray<uint8_t> bytes)
    : width_(static_cast<size_t>(shape.elements())), bytes_(std::move(bytes)) {}

std::span<const uint8_t> ByteImages::image(int64_t row) const {
  return std::span(bytes_).subspan(static_cast<size_t>(row) * width_, width_);
}

void ByteImages::read(int64_t row, std::span<float> out) const {
  write_unit_range(image(row), out);
}

void ByteImages::hash(std::span<const int32_t> rows, Sha256& hash) const {
  for (const int32_t row : rows) hash.update(std::as_bytes(image(row)));
  if (rows.empty()) hash.update(std::as_bytes(std::span(bytes_)));
}

}  // namespace runner::data
