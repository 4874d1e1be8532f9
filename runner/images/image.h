// An image in memory. Thread safety: as for a vector.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>

#include "schema/base/large_array.h"

namespace runner::images {

// Largest number of pixels of an image. Its bytes and their indices fit into int32_t.
constexpr int64_t kMaxPixels = int64_t{1} << 28;
static_assert(3 * kMaxPixels <= INT32_MAX);

// RGB bytes of shape (height, width, 3), contiguous, first the top row from left to right.
struct Image {
  int64_t height = 0, width = 0;
  LargeArray<uint8_t> rgb{};

  static auto parts(auto& self) { return std::tie(self.height, self.width, self.rgb); }

  int64_t row_bytes() const { return 3 * width; }
  uint8_t* row(int64_t y) { return rgb.data() + y * row_bytes(); }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * row_bytes(); }
  uint8_t* pixel(int64_t y, int64_t x) { return row(y) + 3 * x; }
  const uint8_t* pixel(int64_t y, int64_t x) const { return row(y) + 3 * x; }
};

// Whether height * width is between 1 and kMaxPixels.
bool has_valid_size(int64_t height, int64_t width);

// Returns a black image. Requires has_valid_size().
Image black_image(int64_t height, int64_t width);

}  // namespace runner::images
