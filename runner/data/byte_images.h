// Images in memory as bytes, whose features are byte / 255.
#pragma once

#include <cstdint>
#include <span>

#include "backends/tensor/shape.h"
#include "runner/data/sample_source.h"
#include "schema/base/large_array.h"
#include "schema/base/parts.h"

namespace runner::data {

// Writes byte / 255 for each byte, as torchvision's ToTensor. Both spans have the same length.
void write_unit_range(std::span<const uint8_t> bytes, std::span<float> out);

class ByteImages : public SampleSource {
 public:
  // `bytes`: (N, elements of `shape`), of features of `shape` (C, H, W).
  ByteImages(const backends::Shape& shape, LargeArray<uint8_t> bytes);

  void read(int64_t row, std::span<float> out) const override;
  void hash(std::span<const int32_t> rows, Sha256& hash) const override;

 private:
  friend class runner::PartsAccess;

  ByteImages() = default;
  static auto parts(auto& self) { return std::tie(self.width_, self.bytes_); }
  std::span<const uint8_t> image(int64_t row) const;

  size_t width_ = 0;
  LargeArray<uint8_t> bytes_;
};

}  // namespace runner::data
