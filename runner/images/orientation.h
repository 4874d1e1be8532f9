// The orientation of an image in its metadata. Thread-safe.
//
// As Pillow, EXIF decides, and XMP only if EXIF has no orientation. Metadata that cannot be read have no orientation.
#pragma once

#include <string>

#include "runner/images/image.h"

namespace runner::images {

// Metadata of a file; empty if it has none.
struct Metadata {
  std::string exif{};  // the TIFF structure, possibly after one or two "Exif\0\0"
  std::string xmp{};
};

// Returns the value of the tag Orientation; 1 if there is none or none from 1 to 8.
int orientation_of(const Metadata& metadata);

// Returns the image as it should be shown: mirrored, turned or both. `orientation`: 1 to 8.
Image turned(Image image, int orientation);

}  // namespace runner::images
