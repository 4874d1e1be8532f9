// Resizes and crops images as Pillow and torchvision do, to the byte. Thread-safe.
//
// Functions that return an image throw Error(kData) if it would have no pixels or more than kMaxPixels.
#pragma once

#include <cstdint>
#include <tuple>

#include "runner/images/image.h"

namespace runner::images {

struct ImageSize {
  int64_t height = 0, width = 0;

  static auto parts(auto& self) { return std::tie(self.height, self.width); }
};

// A part of an image: rows from `top`, columns from `left`.
struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Box&) const = default;
};

// The pixels of a part, which must be in the image.
Image cropped(const Image& image, const Box& box);

// Image.resize((width, height), Image.BILINEAR) of Pillow 13: a triangle filter that is widened by the scale if the
// image shrinks (antialiasing). The first of the two passes rounds to bytes, and weights are fixed-point numbers with
// 22 bits. Older versions always begin with the horizontal pass, so that bytes can differ if an image loses many more
// rows than columns.
Image resized(const Image& image, int64_t height, int64_t width);

// Returns the size of torchvision's Resize(side): the shorter side becomes `side`, the longer one is truncated.
ImageSize size_with_shorter_side(const Image& image, int64_t side);

// torchvision's CenterCrop((height, width)): a smaller image is first padded with 0 on both sides, and a half pixel is
// rounded to an even offset.
Image center_crop(const Image& image, int64_t height, int64_t width);

}  // namespace runner::images
