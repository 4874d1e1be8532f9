// Decodes PNG and JPEG files to RGB. Thread-safe.
//
// The pixels are those of Pillow's ImageOps.exif_transpose(Image.open(file)).convert("RGB"): palettes become colours,
// grey becomes three equal channels, alpha and tRNS are dropped without blending, samples of 16 bits become their high
// byte. One difference: Pillow clips grey samples of 16 bits at 255. CMYK is read as inverted, as Adobe writes it, with
// and without Adobe's marker.
//
// All functions throw Error(kData), with the name of the file, if the bytes are no PNG or JPEG image, are damaged or
// end early, or if the image has no pixels or more than kMaxPixels. Checksums of all PNG chunks are verified. Bytes
// after the end of the image are ignored, because cameras append previews and videos there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include "runner/images/image.h"

namespace runner::images {

enum class FileFormat { kPng, kJpeg };

// Colours that a file stores.
enum class ColorKind { kGrey, kGreyAlpha, kPalette, kRgb, kRgba, kCmyk };

// What a file stores, before its conversion to RGB.
struct ImageInfo {
  FileFormat format = FileFormat::kPng;
  ColorKind color = ColorKind::kRgb;
  int bits = 8;             // per sample, or per palette index
  bool has_trns = false;    // PNG: transparency that is dropped, of a file without alpha
  int orientation = 1;      // EXIF or XMP: 1 as stored, 2 to 8 mirrored or turned; already applied to the pixels
  bool is_corrupt = false;  // JPEG: some pixels are invented because their data are corrupt. Pillow accepts such files

  static auto parts(auto& self) {
    return std::tie(self.format, self.color, self.bits, self.has_trns, self.orientation, self.is_corrupt);
  }
};

struct DecodedImage {
  Image image;
  ImageInfo info;
};

// `name`: file name for errors.
DecodedImage decode(std::span<const std::byte> bytes, const std::string& name);

// Returns the bytes of an image file, whatever its name ends with. Throws Error(kData) if it cannot be read or has more
// than 1 GiB.
std::string read_image_file(const std::string& path);
DecodedImage decode_file(const std::string& path);

// Versions of the libraries, which decide the pixels: "1.6.39" and "2.1.5".
std::string libpng_version();
std::string libjpeg_turbo_version();

}  // namespace runner::images
