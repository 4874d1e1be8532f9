// Shows many images as one. Thread-safe.
#pragma once

#include <span>

#include "runner/images/image.h"

namespace runner::images {

// Returns a grid of the images, which must not be empty, in rows from left to right with as many columns as rows, or
// one more. All cells have the size of the largest image, and a border of one pixel surrounds them. If the largest
// image is below 96 pixels, all are enlarged by one whole factor without interpolation, so that digits of 28 x 28
// pixels are visible. Throws Error(kData) if the sheet would exceed kMaxPixels.
Image contact_sheet(std::span<const Image> images);

}  // namespace runner::images
