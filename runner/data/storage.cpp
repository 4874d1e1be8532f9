#include "runner/data/storage.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {

std::shared_ptr<const TokenMasker> ReadOptions::masker() const {
  if (!masking) return nullptr;
  return about_key("train.objective",
                   [&] { return std::make_shared<const TokenMasker>(*masking, tokenizer->for_masking(*masking)); });
}

std::string ReadOptions::remedy(std::string_view setting, std::string_view change) const {
  return std::string(has_recipe ? setting : change);
}

void Storage::use_tokens_as_labels(LabelsAs as) {
  label_kind = LabelKind::kClass;
  token_labels = as == LabelsAs::kNextTokens ? TokenLabels::kNext : TokenLabels::kOwn;
  sequence = width();
  outputs = vocabulary;
}

void Storage::read_row(int64_t row, std::span<float> out) const {
  const size_t start = static_cast<size_t>(row) * out.size();
  if (!values.empty()) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(start), out.size(), out.begin());
  } else if (source) {
    source->read(row, out);
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(bytes[start + i]) * scale;
  }
}

std::vector<SampleInput> Storage::further_inputs() const {
  std::vector<SampleInput> inputs;
  for (const IdInput& more : more_inputs) inputs.push_back(more.input);
  if (rows.has_value())
    for (const char* name : {kMaskName, kSegmentsName})
      inputs.push_back({name, backends::DType::kI64, feature_shape, 2});
  return inputs;
}

void Storage::read_further(size_t input, int64_t row, std::span<int64_t> out) const {
  if (!rows.has_value()) {
    std::copy_n(more_inputs[input].ids.begin() + row * std::ssize(out), out.size(), out.begin());
    return;
  }
  const bool is_mask = input == 0;
  const auto length = static_cast<size_t>(rows->length(row));
  const auto begin = rows->segments.begin() + rows->begin(row);
  for (size_t i = 0; i < length; ++i) out[i] = is_mask ? 1 : begin[static_cast<ptrdiff_t>(i)];
  std::ranges::fill(out.subspan(length), 0);
}

void Storage::read_tokens(int64_t row, std::span<int64_t> out) const {
  if (rows.has_value()) {
    rows->read(row, 0, rows->padding_id, out);
    return;
  }
  if (!tokens.empty())
    std::copy_n(tokens.begin() + row * std::ssize(out), out.size(), out.begin());
  else
    text.read(row * text.stride, out);
}

void TokenText::read(int64_t at, std::span<int64_t> out) const {
  if (file) return file->read(at, out);
  if (planned > 0)
    std::ranges::fill(out, 0);
  else
    std::copy_n(ids.begin() + at, out.size(), out.begin());
}

void Storage::read_classes(int64_t row, std::span<int64_t> out) const {
  if (rule) {
    out[0] = rule->label(row);
  } else if (!classes.empty()) {
    std::copy_n(classes.begin() + row * label_width(), out.size(), out.begin());
  } else if (rows) {
    rows->read(row, label_shift(), kNoLabel, out);
  } else {
    text.read(row * text.stride + label_shift(), out);
  }
}

namespace {

struct Unscalable {
  size_t feature;
  std::string why;
};

// Scales a sample up to the first value that is not finite then. NaN marks a missing value.
std::optional<Unscalable> scale_features(std::span<float> features, double scale) {
  const auto factor = static_cast<float>(scale);
  for (size_t i = 0; i < features.size(); ++i) {
    const float scaled = features[i] * factor;
    if (!std::isfinite(scaled) && !std::isnan(features[i]))
      return Unscalable{i, fmt::format("{} times scale {} is not finite", features[i], scale)};
    features[i] = scaled;
  }
  return std::nullopt;
}

void scale_bytes(Storage& storage, double scale, bool predicts, const std::string& file) {
  storage.scale = static_cast<float>(scale);
  if (std::isfinite(storage.scale * 255)) return;
  const auto width = static_cast<size_t>(storage.width());
  for (size_t i = 0; i < storage.bytes.size(); ++i)
    if (!std::isfinite(static_cast<float>(storage.bytes[i]) * storage.scale))
      refuse_row(storage, predicts, static_cast<int64_t>(i / width), i % width,
                 fmt::format("{} times scale {} is not finite", storage.bytes[i], scale), file);
}

}  // namespace

std::string feature_text(const Storage& storage, size_t feature) {
  return storage.feature_names.empty() ? fmt::format("feature {}", feature)
                                       : "column " + in_quotes(storage.feature_names[feature]);
}

void refuse_row(Storage& storage, bool predicts, int64_t row, size_t feature, const std::string& why,
                const std::string& file) {
  const std::string column = feature_text(storage, feature);
  RUN_CHECK(predicts, ErrorKind::kData, "{}: sample {}, {}: {}", file, row, column, why);
  const auto at = std::ranges::lower_bound(storage.rejected, row, {}, &RejectedRow::row);
  if (at == storage.rejected.end() || at->row != row)
    storage.rejected.insert(at, {row, fmt::format("{}: {}", column, why)});
  const auto width = storage.width();
  if (!storage.values.empty()) std::fill_n(storage.values.begin() + row * width, width, 0.0f);
  if (!storage.bytes.empty()) std::fill_n(storage.bytes.begin() + row * width, width, uint8_t{0});
}

void scale_sample(const Storage& storage, std::span<float> features, int64_t sample, double scale,
                  const std::string& file) {
  if (const auto bad = scale_features(features, scale))
    fail(ErrorKind::kData, "{}: sample {}, {}: {}", file, sample, feature_text(storage, bad->feature), bad->why);
}

void scale_values(Storage& storage, std::optional<double> scale, bool predicts, const std::string& file) {
  if (!scale.has_value()) return;
  if (!storage.bytes.empty()) return scale_bytes(storage, *scale, predicts, file);
  const auto width = static_cast<size_t>(storage.width());
  for (size_t start = 0; start < storage.values.size(); start += width)
    if (const auto bad = scale_features(std::span(storage.values).subspan(start, width), *scale))
      refuse_row(storage, predicts, static_cast<int64_t>(start / width), bad->feature, bad->why, file);
}

}  // namespace runner::data
