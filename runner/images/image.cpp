#include "runner/images/image.h"

#include "schema/base/error.h"

namespace runner::images {

bool has_valid_size(int64_t height, int64_t width) {
  return height > 0 && width > 0 && height <= kMaxPixels / width;
}

Image black_image(int64_t height, int64_t width) {
  RUN_ASSERT(has_valid_size(height, width));
  return {.height = height, .width = width, .rgb = LargeArray<uint8_t>(static_cast<size_t>(3 * height * width), 0)};
}

}  // namespace runner::images
