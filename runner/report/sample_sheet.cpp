#include "runner/report/sample_sheet.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/data/image_shape.h"
#include "runner/data/loader.h"
#include "runner/data/storage.h"
#include "runner/images/contact_sheet.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

// Features that are shown as black and as white.
struct Tones {
  float black = 0, white = 1;
};

// Bytes have a range of their own; numbers of a file that of the samples shown.
Tones tones_of(const data::Storage& storage, std::span<const float> features) {
  if (storage.has_image_source()) return {};
  if (!storage.bytes.empty()) return {.white = 255 * storage.scale};
  const auto [least, most] = std::ranges::minmax(features);
  return {.black = least, .white = most > least ? most : least + 1};
}

// (C, H, W) features to (H, W, 3) bytes.
images::Image image_of(std::span<const float> features, const data::ImageShape& shape, const Tones& tones) {
  images::Image image = images::black_image(shape.height, shape.width);
  const auto pixels = static_cast<size_t>(shape.pixels());
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const size_t channel = shape.channels == 1 ? 0 : i % 3;
    const float tone = 255 * (features[channel * pixels + i / 3] - tones.black) / (tones.white - tones.black);
    image.rgb[i] = static_cast<uint8_t>(std::lround(std::clamp(tone, 0.0f, 255.0f)));
  }
  return image;
}

std::vector<float> without_normalization(std::span<const float> features, const data::Encoding& encoding) {
  std::vector<float> values(features.begin(), features.end());
  if (encoding.center.empty()) return values;
  const auto width = static_cast<size_t>(encoding.feature_shape.elements());
  const size_t shared = encoding.features_per_statistic();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = i % width / shared;
    values[i] = static_cast<float>(double{values[i]} * encoding.spread[at] + encoding.center[at]);
  }
  return values;
}

// "dog", or "72 % 'dog' + 28 % 'cat'" of a mixed sample; empty without labels.
std::string label_text(const data::Batch& batch, size_t sample, const std::vector<std::string>& classes) {
  if (!batch.classes.empty()) {
    const int64_t label = batch.classes[sample];
    const bool is_class = label >= 0 && label < std::ssize(classes);
    return is_class ? classes[static_cast<size_t>(label)] : "ignored";
  }
  std::vector<std::string> parts;
  const size_t count = batch.targets.empty() ? 0 : classes.size();
  for (size_t c = 0; c < count; ++c)
    if (const float probability = batch.targets[sample * count + c]; probability > 0)
      parts.push_back(fmt::format("{:.0f} % {}", 100 * probability, in_quotes(classes[c])));
  return fmt::format("{}", fmt::join(parts, " + "));
}

data::ImageShape shape_of(const data::Encoding& encoding) {
  const std::optional<data::ImageShape> shape = data::image_shape_of(encoding.feature_shape);
  const bool is_image = shape && !encoding.has_tokens() && (shape->channels == 1 || shape->channels == 3);
  RUN_CHECK(is_image, ErrorKind::kNotFound,
            "the samples are no images: they are {}{}, expected (H, W) or (C, H, W) with 1 or 3 channels",
            encoding.has_tokens() ? "tokens " : "", encoding.feature_shape.to_string());
  return *shape;
}

}  // namespace

SampleSheet sample_sheet(const data::Data& data, const schema::Recipe& recipe, int64_t most) {
  const data::ImageShape shape = shape_of(data.encoding);
  data::Loader loader(data.train, data::DataPlan(data::train_plan(recipe, data.train.size())),
                      {.shuffle = recipe.data.shuffle,
                       .by_length = recipe.data.group_by_length,
                       .seed = data::data_seed(recipe),
                       .prefetch = 0,
                       .augmenter = data.augmenter});
  const data::Batch& batch = loader.next();
  const auto count = static_cast<size_t>(std::min(batch.size, most));
  const auto width = static_cast<size_t>(data.encoding.feature_shape.elements());
  const std::vector<float> features = without_normalization(batch.features().first(count * width), data.encoding);
  const Tones tones = tones_of(data.train.storage(), features);

  std::vector<images::Image> samples;
  SampleSheet sheet;
  const std::vector<std::string> classes = data.encoding.classes();
  for (size_t i = 0; i < count; ++i) {
    samples.push_back(image_of(std::span(features).subspan(i * width, width), shape, tones));
    if (std::string label = label_text(batch, i, classes); !label.empty()) sheet.labels.push_back(std::move(label));
  }
  sheet.image = images::contact_sheet(samples);
  const data::Storage& storage = data.train.storage();
  const bool has_bytes = !storage.bytes.empty() || storage.has_image_source();
  if (!has_bytes) sheet.values = fmt::format("{:.4g} is black, {:.4g} white", tones.black, tones.white);
  return sheet;
}

}  // namespace runner::report
