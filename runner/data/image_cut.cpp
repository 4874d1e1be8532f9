#include "runner/data/image_cut.h"

#include <algorithm>
#include <cmath>

namespace runner::data {
namespace {

using images::Box;
using images::ImageSize;

int64_t rounded(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

double draw_between(const std::array<double, 2>& bounds, RandomSequence& random) {
  return bounds[0] + (bounds[1] - bounds[0]) * random.unit();
}

// A box of this size at a random place of the image.
Box placed(const ImageSize& image, int64_t height, int64_t width, RandomSequence& random) {
  const int64_t top = random.below(static_cast<uint32_t>(image.height - height + 1));
  const int64_t left = random.below(static_cast<uint32_t>(image.width - width + 1));
  return {.top = top, .left = left, .height = height, .width = width};
}

Box largest_in_the_middle(const ImageSize& image, const std::array<double, 2>& ratio) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  Box box{.height = image.height, .width = image.width};
  if (width / height < ratio[0]) box.height = std::max<int64_t>(rounded(width / ratio[0]), 1);
  if (width / height > ratio[1]) box.width = std::max<int64_t>(rounded(height * ratio[1]), 1);
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

}  // namespace

Box ImageCut::draw(const ImageSize& image, const ImageSize& sample, RandomSequence& random) const {
  if (from == ImageStage::kResized) return placed(image, sample.height, sample.width, random);
  const auto pixels = static_cast<double>(image.height * image.width);
  const std::array<double, 2> logarithms{std::log(ratio[0]), std::log(ratio[1])};
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double area = pixels * draw_between(scale, random), of_width = std::exp(draw_between(logarithms, random));
    const int64_t width = rounded(std::sqrt(area * of_width)), height = rounded(std::sqrt(area / of_width));
    if (width > 0 && width <= image.width && height > 0 && height <= image.height)
      return placed(image, height, width, random);
  }
  return largest_in_the_middle(image, ratio);
}

std::optional<ImageCut> cut_of(std::span<const schema::AugmentStep> steps) {
  if (steps.empty()) return std::nullopt;
  const schema::AugmentStep& first = steps.front();
  if (!first.random_resized_crop.empty()) {
    ImageCut cut{.from = ImageStage::kDecoded, .scale = {0.08, 1}, .ratio = {3.0 / 4, 4.0 / 3}};
    std::ranges::copy(first.scale, cut.scale.begin());
    std::ranges::copy(first.ratio, cut.ratio.begin());
    return cut;
  }
  if (!first.crop.empty() && !first.padding) return ImageCut{.from = ImageStage::kResized};
  return std::nullopt;
}

}  // namespace runner::data
