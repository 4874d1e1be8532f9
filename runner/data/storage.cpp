#include "runner/data/storage.h"

#include <algorithm>
#include <cmath>

#include "schema/base/error.h"

namespace runner::data {

void Storage::read_row(int64_t row, std::span<float> out) const {
  const size_t start = static_cast<size_t>(row) * out.size();
  if (!values.empty()) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(start), out.size(), out.begin());
  } else if (rule.has_value()) {
    rule->features(row, out);
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(bytes[start + i]) * scale;
  }
}

void Storage::read_tokens(int64_t row, std::span<int64_t> out) const {
  std::copy_n(text.ids.begin() + row * text.stride, out.size(), out.begin());
}

void Storage::read_classes(int64_t row, std::span<int64_t> out) const {
  if (rule.has_value()) {
    out[0] = rule->label(row);
  } else if (is_text()) {
    std::copy_n(text.ids.begin() + row * text.stride + 1, out.size(), out.begin());
  } else {
    out[0] = classes[static_cast<size_t>(row)];
  }
}

void scale_sample(std::span<float> features, int64_t sample, double scale, const std::string& file) {
  const auto factor = static_cast<float>(scale);
  for (size_t i = 0; i < features.size(); ++i) {
    const float scaled = features[i] * factor;
    RUN_CHECK(!std::isinf(scaled), ErrorKind::kData, "{}: sample {}, feature {}: {} times scale {} is not finite", file,
              sample, i, features[i], scale);
    features[i] = scaled;
  }
}

void scale_values(Storage& storage, std::optional<double> scale, const std::string& file) {
  if (!scale.has_value()) return;
  const auto width = static_cast<size_t>(storage.width());
  for (size_t start = 0; start < storage.values.size(); start += width) {
    scale_sample(std::span(storage.values).subspan(start, width), static_cast<int64_t>(start / width), *scale, file);
  }
}

}  // namespace runner::data
