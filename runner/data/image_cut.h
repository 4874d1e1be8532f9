// Which part of an image becomes a training sample: data.train.augment with random_resized_crop, or with crop without
// padding. A plain value; thread-safe.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "runner/data/image_reading.h"
#include "runner/data/random.h"
#include "runner/images/resize.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

struct ImageCut {
  ImageStage from = ImageStage::kResized;  // stage of the image that is cut
  // With kDecoded: bounds of the part's share of the area, and of its width / height.
  std::array<double, 2> scale{}, ratio{};

  // Draws the part of an image. With kResized it has the size of the samples, which must fit, as in torchvision's
  // RandomCrop. With kDecoded it has any size, as in RandomResizedCrop: its share of the area is uniform, the logarithm
  // of its ratio too; after 10 parts that are not in the image, it is the largest part in the middle with a valid
  // ratio.
  images::Box draw(const images::ImageSize& image, const images::ImageSize& sample, RandomSequence& random) const;
};

// Returns the cut of the first step; none if samples are read as in evaluations.
std::optional<ImageCut> cut_of(std::span<const schema::AugmentStep> steps);

}  // namespace runner::data
