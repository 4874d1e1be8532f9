// How files of images become samples (data.resize, data.center_crop, data.damaged). A plain value; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "runner/images/image.h"
#include "schema/base/json.h"

namespace runner::data {

// How far the pixels of a file are processed: as decoded, after data.resize, after data.center_crop.
enum class ImageStage : uint8_t { kDecoded, kResized, kSample };

struct ImageReading {
  std::vector<int64_t> resize = {};       // one number: of the shorter side; two: height and width; empty: none
  std::vector<int64_t> center_crop = {};  // one number: of both sides; two: height and width; empty: none
  bool skips_damaged = false;

  static auto parts(auto& self) { return std::tie(self.resize, self.center_crop, self.skips_damaged); }
  bool operator==(const ImageReading&) const = default;
  // Returns an image of the stage `from` at the later stage `to`: resized, then cropped. None if it is the same there.
  // Throws Error(kData) naming `name` if the result would have too many pixels.
  std::optional<images::Image> advanced(const images::Image& image, ImageStage from, ImageStage to,
                                        const std::string& name) const;
  json::Object to_json() const;
  // Throws Error(kStore) if `document` was not written by to_json().
  static ImageReading from_json(const json::Value& document);
};

}  // namespace runner::data
