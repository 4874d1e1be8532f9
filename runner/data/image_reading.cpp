#include "runner/data/image_reading.h"

#include "runner/images/resize.h"
#include "schema/base/error.h"

namespace runner::data {

std::optional<images::Image> ImageReading::advanced(const images::Image& image, ImageStage from, ImageStage to,
                                                    const std::string& name) const {
  std::optional<images::Image> result;
  if (from < ImageStage::kResized && to >= ImageStage::kResized && !resize.empty()) {
    const images::ImageSize size = resize.size() == 1 ? images::size_with_shorter_side(image, resize.front())
                                                      : images::ImageSize{resize.front(), resize.back()};
    RUN_CHECK(images::has_valid_size(size.height, size.width), ErrorKind::kData,
              "{}: data.resize makes {} x {} pixels of {} x {}, expected at most {} pixels", name, size.height,
              size.width, image.height, image.width, images::kMaxPixels);
    result = images::resized(image, size.height, size.width);
  }
  if (from < ImageStage::kSample && to == ImageStage::kSample && !center_crop.empty())
    result = images::center_crop(result ? *result : image, center_crop.front(), center_crop.back());
  return result;
}

json::Object ImageReading::to_json() const {
  return {
      {"center_crop", json::list_of(center_crop)}, {"resize", json::list_of(resize)}, {"skips_damaged", skips_damaged}};
}

ImageReading ImageReading::from_json(const json::Value& document) {
  const json::ObjectReader object(document);
  ImageReading reading{.resize = object.integers("resize"),
                       .center_crop = object.integers("center_crop"),
                       .skips_damaged = object.boolean("skips_damaged")};
  for (const std::vector<int64_t>& sizes : {reading.resize, reading.center_crop}) {
    const bool are_valid = sizes.empty() || (sizes.size() <= 2 && images::has_valid_size(sizes.front(), sizes.back()));
    RUN_CHECK(are_valid, ErrorKind::kStore, "images has a size of {} numbers, expected one or two above 0",
              sizes.size());
  }
  return reading;
}

}  // namespace runner::data
