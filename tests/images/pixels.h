// What tests look at in images.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/images/decode.h"
#include "tests/support/paths.h"

namespace runner::images {

using Bytes = std::vector<uint8_t>;

inline DecodedImage decode_text(std::string_view bytes, const std::string& name = "x") {
  return decode(std::as_bytes(std::span(bytes)), name);
}

// A file that figures.py has written.
inline std::string figure_file(const std::string& name) {
  return support::source_path("tests/images/files/" + name);
}

// Grey values of an image whose three channels are equal.
inline Image grey_image(int64_t height, int64_t width, const Bytes& values) {
  Image image = black_image(height, width);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = values[i / 3];
  return image;
}

// Returns every third byte.
inline Bytes reds(const Image& image) {
  Bytes values;
  for (size_t i = 0; i < image.rgb.size(); i += 3) values.push_back(image.rgb[i]);
  return values;
}

}  // namespace runner::images
