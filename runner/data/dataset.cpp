#include "runner/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "runner/data/image_files.h"
#include "runner/data/storage.h"
#include "runner/data/stream.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

constexpr const char* kOutputNames[] = {"no labels", "classes", "targets"};

std::string outputs_text(const Fingerprint& print) {
  const char* name = kOutputNames[static_cast<size_t>(print.label_kind)];
  return print.label_kind == LabelKind::kNone ? name : fmt::format("{} {}", print.outputs, name);
}

template <class Values>
std::span<const std::byte> bytes_of(const Values& values, size_t first, size_t count) {
  return std::as_bytes(std::span(values).subspan(first, count));
}

}  // namespace

std::string Fingerprint::to_string() const {
  return fmt::format("{} samples, features {}, {}, sha256 {}", samples, feature_shape.to_string(), outputs_text(*this),
                     contents);
}

Fingerprint Fingerprint::parse(std::string_view text) {
  std::string_view rest = text;
  const auto take_until = [&](std::string_view end) {
    const size_t at = std::min(rest.find(end), rest.size());
    std::string part(rest.substr(0, at));
    rest.remove_prefix(std::min(at + end.size(), rest.size()));
    return part;
  };
  const auto number = [](const std::string& digits) { return std::strtoll(digits.c_str(), nullptr, 10); };

  Fingerprint print;
  print.samples = number(take_until(" samples, features ("));
  std::vector<int64_t> dims(1);
  for (const char c : take_until("), ")) {
    if (c == ',') dims.push_back(0);
    if (c >= '0' && c <= '9') dims.back() = dims.back() * 10 % INT32_MAX + (c - '0');
  }
  if (dims.size() <= backends::Shape::kMaxRank) print.feature_shape = backends::Shape(dims);
  const std::string outputs = take_until(", sha256 ");
  for (const LabelKind kind : {LabelKind::kClass, LabelKind::kTarget}) {
    if (outputs.ends_with(kOutputNames[static_cast<size_t>(kind)])) print.label_kind = kind;
  }
  print.outputs = number(outputs);
  print.contents = rest;
  RUN_CHECK(print.to_string() == text, ErrorKind::kStore, "invalid data fingerprint: {}", in_quotes(text));
  return print;
}

std::string difference(const Fingerprint& before, const Fingerprint& after) {
  std::vector<std::string> changes;
  const auto compare = [&](const std::string& a, const std::string& b, const char* format) {
    if (a != b) changes.push_back(fmt::format(fmt::runtime(format), a, b));
  };
  compare(std::to_string(before.samples), std::to_string(after.samples), "{} samples -> {}");
  compare(before.feature_shape.to_string(), after.feature_shape.to_string(), "features {} -> {}");
  if (before.label_kind == after.label_kind) {
    compare(std::to_string(before.outputs), std::to_string(after.outputs),
            before.label_kind == LabelKind::kClass ? "{} classes -> {}" : "{} targets -> {}");
  } else {
    compare(kOutputNames[static_cast<size_t>(before.label_kind)], kOutputNames[static_cast<size_t>(after.label_kind)],
            "{} -> {}");
  }
  if (changes.empty() && before.contents != after.contents) return "the contents differ";
  return fmt::format("{}", fmt::join(changes, ", "));
}

Dataset::Dataset(std::string name, std::shared_ptr<const Storage> storage, LargeArray<int32_t> rows,
                 const Encoding& encoding)
    : name_(std::move(name)),
      storage_(std::move(storage)),
      rows_(std::move(rows)),
      size_(rows_.empty() ? storage_->samples : static_cast<int64_t>(rows_.size())),
      all_(size_),
      outputs_(storage_->label_kind == LabelKind::kNone ? 0 : encoding.outputs),
      inputs_(encoding.inputs()),
      padding_(encoding.has_lengths() ? encoding.texts->padding : schema::TokenPadding::kMaxLength) {
  const auto at = [](const std::vector<double>& values, size_t f) { return values.empty() ? 0 : values[f]; };
  const size_t shared = encoding.features_per_statistic();
  for (size_t f = 0; f < encoding.center.size() * shared; ++f) {
    const size_t i = f / shared;
    center_.push_back(static_cast<float>(encoding.center[i] - at(storage_->offsets, f) + at(encoding.center_rest, f)));
    factor_.push_back(1 / static_cast<float>(encoding.spread[i]));
  }
}

Dataset Dataset::with_storage(std::shared_ptr<const Storage> storage) && {
  storage_ = std::move(storage);
  return std::move(*this);
}

const backends::Shape& Dataset::feature_shape() const {
  return storage_->feature_shape;
}
LabelKind Dataset::label_kind() const {
  return storage_->label_kind;
}

const std::string& Dataset::source() const {
  return storage_->files.empty() ? name_ : storage_->files.front().path;
}

int64_t Dataset::label_width() const {
  return storage_->label_width();
}

int64_t Dataset::shuffle_buffer() const {
  return storage_->stream ? storage_->stream->shuffle_buffer : 0;
}

void Dataset::normalize(std::span<float> sample) const {
  for (size_t f = 0; f < center_.size(); ++f) sample[f] = (sample[f] - center_[f]) * factor_[f];
}

std::optional<size_t> Dataset::overflow(std::span<const float> normalized) const {
  const auto bad = std::ranges::find_if_not(normalized, [](float value) { return std::isfinite(value); });
  if (center_.empty() || bad == normalized.end()) return std::nullopt;
  return static_cast<size_t>(bad - normalized.begin());
}

std::string Dataset::overflow_text(float value, size_t feature) const {
  const double offset = storage_->offsets.empty() ? 0 : storage_->offsets[feature];
  return fmt::format("{:.6g} is too large for f32 after normalisation: minus {:.6g}, times {:.6g}", value + offset,
                     center_[feature] + offset, factor_[feature]);
}

int64_t Dataset::length_of(int64_t id) const {
  return storage_->rows->length(row(id));
}

int64_t Dataset::padded_length(int64_t longest) const {
  return data::padded_length(padding_, longest, feature_shape().elements());
}

int64_t Dataset::row(int64_t id) const {
  RUN_ASSERT(!storage_->stream);
  RUN_CHECK(id >= 0 && id < size_, ErrorKind::kRun, "sample {} does not exist in {}, which has {}", id, name_, size_);
  if (size_ != all_) id = static_cast<int64_t>(static_cast<__int128>(id) * all_ / size_);
  return rows_.empty() ? id : rows_[static_cast<size_t>(id)];
}

int64_t Dataset::file_row(int64_t id) const {
  if (storage_->is_windowed()) return id;
  const int64_t sample = storage_->stream ? id : row(id);
  const auto dropped = std::ranges::upper_bound(storage_->dropped_before, sample);
  return sample + (dropped - storage_->dropped_before.begin());
}

void Dataset::read_features(int64_t id, std::span<float> features) const {
  storage_->read_row(row(id), features);
}

void Dataset::read_cut(int64_t id, const ImageCut& cut, RandomSequence& random, std::span<float> features) const {
  storage_->image_files->read_cut(row(id), cut, random, features);
}

void Dataset::gather_features(std::span<const int64_t> ids, std::span<float> features) const {
  const auto width = static_cast<size_t>(storage_->width());
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::span<float> sample = features.subspan(i * width, width);
    read_features(ids[i], sample);
    normalize(sample);
  }
}

void Dataset::gather_tokens(std::span<const int64_t> ids, std::span<int64_t> tokens) const {
  if (ids.empty()) return;
  const size_t width = tokens.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) storage_->read_tokens(row(ids[i]), tokens.subspan(i * width, width));
}

void Dataset::gather_input(size_t input, std::span<const int64_t> ids, std::span<std::byte> values) const {
  if (ids.empty()) return;
  if (input > 0) {
    const std::span<int64_t> out = values_of<int64_t>(values);
    const size_t width = out.size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i)
      storage_->read_further(input - 1, row(ids[i]), out.subspan(i * width, width));
  } else if (inputs_.front().vocabulary > 0) {
    gather_tokens(ids, values_of<int64_t>(values));
  } else {
    gather_features(ids, values_of<float>(values));
  }
}

void Dataset::gather_classes(std::span<const int64_t> ids, std::span<int64_t> classes) const {
  if (ids.empty()) return;
  const size_t width = classes.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) storage_->read_classes(row(ids[i]), classes.subspan(i * width, width));
}

bool Dataset::is_masked() const {
  return storage_->masker != nullptr;
}

void Dataset::mask(const SampleKey& key, std::span<const int64_t> ids, std::span<int64_t> tokens,
                   std::span<int64_t> labels) const {
  if (ids.empty()) return;
  const size_t width = tokens.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t at = row(ids[i]);
    const size_t count = storage_->rows ? static_cast<size_t>(storage_->rows->length(at)) : width;  // without padding
    storage_->masker->apply(key, at, tokens.subspan(i * width, count), labels.subspan(i * width, count));
  }
}

void Dataset::gather_targets(std::span<const int64_t> ids, std::span<float> targets) const {
  if (storage_->targets_are_features) return gather_features(ids, targets);
  const auto count = static_cast<size_t>(outputs_);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<size_t>(row(ids[i]));
    const std::span<float> sample = targets.subspan(i * count, count);
    if (storage_->rule) {
      storage_->rule->targets(static_cast<int64_t>(at), sample);
    } else {
      std::copy_n(storage_->targets.begin() + static_cast<ptrdiff_t>(at * count), count, sample.begin());
    }
  }
}

Dataset Dataset::thinned(int64_t count) const {
  Dataset part = *this;
  part.size_ = std::min(count, size_);
  return part;
}

std::vector<int64_t> Dataset::count_classes(std::optional<int64_t> ignored) const {
  std::vector<int64_t> counts(static_cast<size_t>(outputs_)), classes(static_cast<size_t>(label_width()));
  const auto count = [&] {
    for (const int64_t label : classes)
      if (label >= 0 && label < outputs_ && label != ignored) ++counts[static_cast<size_t>(label)];
  };
  if (storage_->stream) {
    for (StreamedRows rows(*storage_); rows.next(); count()) rows.read_classes(classes);
    return counts;
  }
  for (int64_t id = 0; id < size_; ++id) {
    storage_->read_classes(row(id), classes);
    count();
  }
  return counts;
}

std::vector<std::string> Dataset::warnings() const {
  std::vector<std::string> texts;
  for (const std::string& text : storage_->warnings) texts.push_back(name_ + ": " + text);
  if (const auto dropped = std::ssize(storage_->dropped_before); dropped > 0) {
    texts.push_back(fmt::format("{}: {} of {} rows {} dropped: a value is missing", name_, dropped,
                                dropped + storage_->samples, dropped == 1 ? "was" : "were"));
  }
  if (storage_->rows && storage_->rows->truncated > 0)
    texts.push_back(fmt::format("{}: {} of {} rows {} cut to {} tokens", name_, storage_->rows->truncated,
                                storage_->samples, storage_->rows->truncated == 1 ? "was" : "were", storage_->width()));
  if (const int64_t filled = storage_->filled_values; filled > 0) {
    texts.push_back(fmt::format("{}: {} missing {} with the mean of {} column", name_, filled,
                                filled == 1 ? "value was filled" : "values were filled",
                                filled == 1 ? "its" : "their"));
  }
  return texts;
}

Fingerprint Dataset::fingerprint() const {
  const Storage& s = *storage_;
  if (s.stream) return {all_, s.feature_shape, s.label_kind, outputs_, s.stream->contents};
  Sha256 hash;
  if (s.source) s.source->hash(rows_, hash);
  for (const std::string& name : s.class_names) hash.update(name).update(std::string_view("\0", 1));
  if (s.rows)
    for (const std::string& name : s.rows->characters) hash.update(name).update(std::string_view("\0", 1));
  if (s.text.file) s.text.file->hash(hash);
  hash.update(std::as_bytes(std::span(s.text.ids))).update(std::as_bytes(std::span(s.offsets)));
  const auto update = [&](size_t first_row, size_t rows) {
    const auto hash_rows = [&](const auto& values, size_t width) {
      if (!values.empty()) hash.update(bytes_of(values, first_row * width, rows * width));
    };
    hash_rows(s.values, static_cast<size_t>(s.width()));
    hash_rows(s.bytes, static_cast<size_t>(s.width()));
    hash_rows(s.tokens, static_cast<size_t>(s.width()));
    if (s.rows) {
      const auto end = static_cast<size_t>(s.rows->ends[first_row + rows - 1]);
      const auto begin = static_cast<size_t>(s.rows->begin(static_cast<int64_t>(first_row)));
      hash_rows(s.rows->ends, 1);
      hash.update(bytes_of(s.rows->ids, begin, end - begin)).update(bytes_of(s.rows->segments, begin, end - begin));
    }
    for (const IdInput& more : s.more_inputs) hash_rows(more.ids, static_cast<size_t>(more.input.shape.elements()));
    hash_rows(s.classes, static_cast<size_t>(s.label_width()));
    hash_rows(s.targets, static_cast<size_t>(s.outputs));
  };
  if (s.is_windowed()) return {all_, s.feature_shape, s.label_kind, outputs_, hex(hash.finish())};
  for (const int32_t row : rows_) update(static_cast<size_t>(row), 1);
  if (rows_.empty()) update(0, static_cast<size_t>(s.samples));
  return {all_, s.feature_shape, s.label_kind, outputs_, hex(hash.finish())};
}

}  // namespace runner::data
