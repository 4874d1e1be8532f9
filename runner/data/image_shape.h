// Images among the features of a sample: shape (H, W), or (C, H, W) with the channels first. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/tensor/shape.h"

namespace runner::data {

struct ImageShape {
  int64_t channels = 1, height = 0, width = 0;

  int64_t pixels() const { return height * width; }  // of a channel
};

// Returns none for any other shape.
inline std::optional<ImageShape> image_shape_of(const backends::Shape& shape) {
  if (shape.rank() == 2) return ImageShape{1, shape[0], shape[1]};
  if (shape.rank() == 3) return ImageShape{shape[0], shape[1], shape[2]};
  return std::nullopt;
}

}  // namespace runner::data
