// Resizes and crops images as Pillow and torchvision do, to the byte. Thread-safe.
#pragma once

#include <cstdint>

#include "runner/images/image.h"

namespace runner::images {

struct ImageSize {
  int64_t height = 0, width = 0;
};

// Pillow's Image.resize((width, height), Image.BILINEAR): a triangle filter that is widened by the scale if the image
// shrinks (antialiasing). The horizontal pass rounds to bytes before the vertical one, and weights are fixed-point
// numbers with 22 bits. Requires has_valid_size(height, width).
Image resized(const Image& image, int64_t height, int64_t width);

// Returns the size of torchvision's Resize(side): the shorter side becomes `side`, the longer one is truncated.
ImageSize size_with_shorter_side(const Image& image, int64_t side);

// resized() to size_with_shorter_side(), which must be valid.
Image resize_shorter_side(const Image& image, int64_t side);

// torchvision's CenterCrop((height, width)): a smaller image is first padded with 0 on both sides, and a half pixel is
// rounded to an even offset. Requires has_valid_size(height, width).
Image center_crop(const Image& image, int64_t height, int64_t width);

}  // namespace runner::images
