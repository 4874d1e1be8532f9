#include "runner/data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "runner/data/storage.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

// Uniform from -1 to 1.
double draw_symmetric(RandomSequence& random) {
  return 2 * random.unit() - 1;
}

// A number of the standard normal distribution (Box and Muller, 1958).
double draw_normal(RandomSequence& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(2 * std::numbers::pi * random.unit());
}

// The logarithm of a number of the distribution Gamma(shape, 1). Source: Marsaglia and Tsang, "A simple method for
// generating gamma variables", 2000; section 6 for a shape below 1.
double draw_log_gamma(double shape, RandomSequence& random) {
  if (shape < 1) {
    const double larger = draw_log_gamma(shape + 1, random);
    return larger + std::log(1 - random.unit()) / shape;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draw_normal(random), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.unit()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

std::span<float> channel_of(const ImageShape& shape, int64_t channel, std::span<float> image) {
  const auto pixels = static_cast<size_t>(shape.pixels());
  return image.subspan(static_cast<size_t>(channel) * pixels, pixels);
}

// ratio * value + (1 - ratio) * other, from 0 to 1.
float blended(float value, float other, float ratio) {
  return std::clamp(ratio * value + (1 - ratio) * other, 0.0f, 1.0f);
}

// Luma of a pixel; weights of ITU-R 601-2 as torchvision rounds them.
float grey_of(float red, float green, float blue) {
  return 0.2989f * red + 0.587f * green + 0.114f * blue;
}

// The value of a channel at a pixel, 0 outside of the image.
float pixel_at(const ImageShape& shape, const float* channel, int64_t y, int64_t x) {
  const bool is_inside = y >= 0 && y < shape.height && x >= 0 && x < shape.width;
  return is_inside ? channel[y * shape.width + x] : 0;
}

void adjust_color(const ImageShape& shape, double most, RandomSequence& random, std::span<float> image) {
  std::array<float, 3> factors{};
  for (float& factor : factors) factor = static_cast<float>(1 + most * draw_symmetric(random));
  adjust_brightness(image, factors[0]);
  adjust_contrast(shape, factors[1], image);
  adjust_saturation(shape, factors[2], image);
}

// `size`: the value of the key, one number, or height and width.
void check_crop(const std::vector<int64_t>& size, const ImageShape& shape, const std::string& key) {
  RUN_CHECK(size.empty() || (size.front() == shape.height && size.back() == shape.width), ErrorKind::kData,
            "{}: crops to {} x {}, but the samples have {} x {} pixels, also in evaluations; write [{}, {}]{}", key,
            size.front(), size.back(), shape.height, shape.width, shape.height, shape.width,
            shape.channels == 3 ? ", or change data.resize and data.center_crop" : "");
}

// Throws Error(kData) if features are not from 0 (black) to 1 (white), as `color` needs them.
void check_unit_range(const Storage& storage, const std::string& key) {
  float least = 0, most = storage.bytes.empty() ? 0 : 255 * storage.scale;
  for (const float value : storage.values) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  RUN_CHECK(least >= 0 && most <= 1.0001f && storage.scale >= 0, ErrorKind::kData,
            "{}.color needs features from 0 to 1, got {} to {}; set data.train.scale, such as 0.00392156862745098 for "
            "bytes",
            key, least, most);
}

}  // namespace

double draw_beta(double alpha, RandomSequence& random) {
  const double first = draw_log_gamma(alpha, random), second = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(second - first));
}

void flip_image(const ImageShape& shape, schema::Flip flip, std::span<float> image) {
  const int64_t rows = shape.channels * shape.height;
  if (flip == schema::Flip::kHorizontal) {
    for (int64_t row = 0; row < rows; ++row)
      std::ranges::reverse(image.subspan(static_cast<size_t>(row * shape.width), static_cast<size_t>(shape.width)));
    return;
  }
  for (int64_t c = 0; c < shape.channels; ++c) {
    const auto begin = channel_of(shape, c, image).begin();
    for (int64_t y = 0; y < shape.height / 2; ++y)
      std::swap_ranges(begin + y * shape.width, begin + (y + 1) * shape.width,
                       begin + (shape.height - 1 - y) * shape.width);
  }
}

void shift_image(const ImageShape& shape, int64_t down, int64_t right, std::span<float> image,
                 std::vector<float>& copy) {
  copy.assign(image.begin(), image.end());
  const int64_t first = std::clamp<int64_t>(-right, 0, shape.width),
                end = std::clamp<int64_t>(shape.width - right, first, shape.width);
  std::ranges::fill(image, 0.0f);
  for (int64_t c = 0; c < shape.channels; ++c) {
    const float* const from = copy.data() + c * shape.pixels();
    float* const to = image.data() + c * shape.pixels();
    for (int64_t y = std::max<int64_t>(-down, 0); y < std::min(shape.height, shape.height - down); ++y)
      std::copy(from + (y + down) * shape.width + right + first, from + (y + down) * shape.width + right + end,
                to + y * shape.width + first);
  }
}

// Pixel centres have whole coordinates relative to the centre of the image if the side is odd, and halves if it is
// even.
void rotate_image(const ImageShape& shape, double degrees, std::span<float> image, std::vector<float>& copy) {
  copy.assign(image.begin(), image.end());
  const double angle = degrees * std::numbers::pi / 180;
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const double middle_y = static_cast<double>(shape.height - 1) / 2,
               middle_x = static_cast<double>(shape.width - 1) / 2;
  for (int64_t y = 0; y < shape.height; ++y) {
    for (int64_t x = 0; x < shape.width; ++x) {
      const double right = static_cast<double>(x) - middle_x, down = static_cast<double>(y) - middle_y;
      const double from_x = cosine * right - sine * down + middle_x, from_y = sine * right + cosine * down + middle_y;
      const double left_x = std::floor(from_x), upper_y = std::floor(from_y);
      const auto part_x = static_cast<float>(from_x - left_x), part_y = static_cast<float>(from_y - upper_y);
      const auto x0 = static_cast<int64_t>(left_x), y0 = static_cast<int64_t>(upper_y);
      for (int64_t c = 0; c < shape.channels; ++c) {
        const float* const from = copy.data() + c * shape.pixels();
        const float upper = (1 - part_x) * pixel_at(shape, from, y0, x0) + part_x * pixel_at(shape, from, y0, x0 + 1);
        const float lower =
            (1 - part_x) * pixel_at(shape, from, y0 + 1, x0) + part_x * pixel_at(shape, from, y0 + 1, x0 + 1);
        image[static_cast<size_t>(c * shape.pixels() + y * shape.width + x)] = (1 - part_y) * upper + part_y * lower;
      }
    }
  }
}

void adjust_brightness(std::span<float> image, float factor) {
  for (float& value : image) value = blended(value, 0, factor);
}

void adjust_contrast(const ImageShape& shape, float factor, std::span<float> image) {
  const std::span<const float> red = channel_of(shape, 0, image);
  const bool is_grey = shape.channels == 1;
  const std::span<const float> green = is_grey ? red : channel_of(shape, 1, image);
  const std::span<const float> blue = is_grey ? red : channel_of(shape, 2, image);
  double sum = 0;
  for (size_t i = 0; i < red.size(); ++i) sum += double{is_grey ? red[i] : grey_of(red[i], green[i], blue[i])};
  const auto mean = static_cast<float>(sum / static_cast<double>(red.size()));
  for (float& value : image) value = blended(value, mean, factor);
}

void adjust_saturation(const ImageShape& shape, float factor, std::span<float> image) {
  if (shape.channels == 1) return;
  const std::span<float> red = channel_of(shape, 0, image), green = channel_of(shape, 1, image),
                         blue = channel_of(shape, 2, image);
  for (size_t i = 0; i < red.size(); ++i) {
    const float grey = grey_of(red[i], green[i], blue[i]);
    for (const std::span<float> channel : {red, green, blue}) channel[i] = blended(channel[i], grey, factor);
  }
}

void cut_out(const ImageShape& shape, int64_t y, int64_t x, int64_t side, std::span<float> image) {
  const int64_t top = y - side / 2, left = x - side / 2;
  const int64_t first = std::clamp<int64_t>(left, 0, shape.width),
                end = std::clamp<int64_t>(left + side, 0, shape.width);
  for (int64_t c = 0; c < shape.channels; ++c) {
    float* const channel = image.data() + c * shape.pixels();
    for (int64_t row = std::max<int64_t>(top, 0); row < std::min(top + side, shape.height); ++row)
      std::fill(channel + row * shape.width + first, channel + row * shape.width + end, 0.0f);
  }
}

Augmenter::Augmenter(const Dataset& dataset, std::vector<schema::AugmentStep> steps)
    : steps_(std::move(steps)), cut_(cut_of(steps_)) {
  const std::optional<ImageShape> shape = image_shape_of(dataset.feature_shape());
  RUN_CHECK(shape.has_value() && !dataset.inputs().front().vocabulary, ErrorKind::kData,
            "data.train.augment needs samples (H, W) or (C, H, W), got {}", dataset.feature_shape().to_string());
  shape_ = *shape;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const std::string key = fmt::format("data.train.augment[{}]", i);
    check_crop(steps_[i].crop, shape_, key + ".crop");
    check_crop(steps_[i].random_resized_crop, shape_, key + ".random_resized_crop");
    if (steps_[i].color) {
      RUN_CHECK(shape_.channels == 1 || shape_.channels == 3, ErrorKind::kData,
                "{}.color needs 1 or 3 channels, but the samples are {}", key, dataset.feature_shape().to_string());
      check_unit_range(dataset.storage(), key);
    }
    RUN_CHECK(!steps_[i].mixup || dataset.label_kind() == LabelKind::kClass, ErrorKind::kData,
              "{}.mixup needs classes, but the labels are numbers", key);
  }
}

std::shared_ptr<const Augmenter> augmenter_of(const Dataset& dataset, const schema::DatasetSpec& section) {
  if (section.augment.empty()) return nullptr;
  return about_key("data.train.augment", [&] { return std::make_shared<const Augmenter>(dataset, section.augment); });
}

bool mixes(std::span<const schema::AugmentStep> steps) {
  return std::ranges::any_of(steps, [](const schema::AugmentStep& step) { return step.mixup.has_value(); });
}

void Augmenter::write_labels(const Dataset& dataset, const SampleKey& key, std::span<const int64_t> ids,
                             std::span<float> probabilities) const {
  const auto classes = static_cast<size_t>(dataset.outputs());
  std::ranges::fill(probabilities, 0.0f);
  for (size_t i = 0; i < ids.size(); ++i) {
    const Mix mixed = mix(dataset, key, ids[i]);
    std::array<int64_t, 2> labels{};
    dataset.gather_classes(std::array{ids[i], mixed.partner}, labels);
    const std::span<float> of_sample = probabilities.subspan(i * classes, classes);
    of_sample[static_cast<size_t>(labels[0])] += mixed.weight;
    of_sample[static_cast<size_t>(labels[1])] += 1 - mixed.weight;
  }
}

Augmenter::Mix Augmenter::mix(const Dataset& dataset, const SampleKey& key, int64_t id) const {
  RandomSequence random(key.seed, Stream::kMixup, key.index(dataset.row(id)));
  const auto step = std::ranges::find_if(steps_, [](const Step& each) { return each.mixup.has_value(); });
  const int64_t partner = random.below(static_cast<uint32_t>(dataset.size()));
  return {.partner = partner, .weight = static_cast<float>(draw_beta(*step->mixup, random))};
}

void Augmenter::read(const Dataset& dataset, const SampleKey& key, int64_t id, std::span<float> features,
                     Scratch& scratch) const {
  apply(dataset, steps_, key, id, features, scratch);
}

// The partner of a sample has the steps before mixup, with its own draws.
void Augmenter::apply(const Dataset& dataset, std::span<const Step> steps, const SampleKey& key, int64_t id,
                      std::span<float> features, Scratch& scratch) const {
  RandomSequence random(key.seed, Stream::kAugment, key.index(dataset.row(id)));
  if (cut_)
    dataset.read_cut(id, *cut_, random, features);
  else
    dataset.read_features(id, features);
  const auto offset = [&](int64_t padding) { return int64_t{random.below(static_cast<uint32_t>(2 * padding + 1))}; };
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.flip && random.unit() < 0.5) flip_image(shape_, *step.flip, features);
    if (step.padding) {
      const int64_t top = offset(*step.padding), left = offset(*step.padding);
      shift_image(shape_, top - *step.padding, left - *step.padding, features, scratch.copy);
    }
    if (step.rotate) rotate_image(shape_, *step.rotate * draw_symmetric(random), features, scratch.copy);
    if (step.color) adjust_color(shape_, *step.color, random, features);
    if (step.cutout) {
      const int64_t y = random.below(static_cast<uint32_t>(shape_.height));
      const int64_t x = random.below(static_cast<uint32_t>(shape_.width));
      cut_out(shape_, y, x, *step.cutout, features);
    }
    if (!step.mixup) continue;
    const Mix mixed = mix(dataset, key, id);
    std::vector<float>& partner = scratch.partner;
    partner.resize(features.size());
    apply(dataset, steps.first(i), key, mixed.partner, partner, scratch);
    for (size_t f = 0; f < features.size(); ++f)
      features[f] = mixed.weight * features[f] + (1 - mixed.weight) * partner[f];
  }
}

}  // namespace runner::data
