#include "runner/images/contact_sheet.h"

#include <algorithm>
#include <cstring>

#include "schema/base/error.h"

namespace runner::images {
namespace {

constexpr int64_t kVisibleSide = 96;  // smaller images are enlarged up to it
constexpr uint8_t kBorder = 128;

// Copies an image with each pixel repeated `factor` times in both directions.
void paste(const Image& image, int64_t factor, Image& sheet, int64_t top, int64_t left) {
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* const first = sheet.pixel(top + y * factor, left);
    for (int64_t x = 0; x < image.width; ++x)
      for (int64_t i = 0; i < factor; ++i) std::memcpy(first + 3 * (x * factor + i), image.pixel(y, x), 3);
    for (int64_t i = 1; i < factor; ++i)
      std::memcpy(sheet.pixel(top + y * factor + i, left), first, static_cast<size_t>(factor * image.row_bytes()));
  }
}

}  // namespace

Image contact_sheet(std::span<const Image> images) {
  RUN_ASSERT(!images.empty());
  int64_t height = 0, width = 0;
  for (const Image& image : images) {
    height = std::max(height, image.height);
    width = std::max(width, image.width);
  }
  const int64_t factor = std::max<int64_t>(kVisibleSide / std::max(height, width), 1);
  const int64_t count = static_cast<int64_t>(images.size());
  int64_t columns = 1;
  while (columns * columns < count) ++columns;
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t cell_height = height * factor + 1, cell_width = width * factor + 1;
  RUN_CHECK(has_valid_size(rows * cell_height + 1, columns * cell_width + 1), ErrorKind::kData,
            "a contact sheet of {} images of {} x {} pixels (height x width) is too large", count, height, width);

  Image sheet = black_image(rows * cell_height + 1, columns * cell_width + 1);
  std::fill(sheet.rgb.begin(), sheet.rgb.end(), kBorder);
  for (int64_t i = 0; i < count; ++i)
    paste(images[i], factor, sheet, i / columns * cell_height + 1, i % columns * cell_width + 1);
  return sheet;
}

}  // namespace runner::images
