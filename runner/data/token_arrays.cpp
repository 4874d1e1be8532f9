#include "runner/data/token_arrays.h"

#include <algorithm>
#include <cmath>

#include "schema/base/error.h"

namespace runner::data {
namespace {

// Returns whole numbers in [0, end) of any type: masks may be floats. `what`: name of one in messages.
LargeArray<int64_t> read_ids(const Array& array, std::string_view what, int64_t end) {
  const auto check = [&](const auto& values, const auto& is_id) {
    const auto bad = std::ranges::find_if_not(values, is_id);
    RUN_CHECK(bad == values.end(), ErrorKind::kData, "{}: sample {}: {} {} is not a whole number from 0 to {}",
              array.name, (bad - values.begin()) / array.shape[1], what, *bad, end - 1);
  };
  if (is_integer(array.element)) {
    LargeArray<int64_t> ids = read_integers(array);
    check(ids, [&](int64_t id) { return id >= 0 && id < end; });
    return ids;
  }
  const LargeArray<double> numbers = read_doubles(array);
  check(numbers, [&](double x) { return std::trunc(x) == x && x >= 0 && x < static_cast<double>(end); });
  LargeArray<int64_t> ids(numbers.size());
  std::ranges::transform(numbers, ids.begin(), [](double x) { return static_cast<int64_t>(x); });
  return ids;
}

// Labels that are the next tokens already would be shifted twice, and train a wrong model.
void refuse_shifted(const Storage& storage, std::span<const int64_t> labels, const std::string& name) {
  const auto length = static_cast<size_t>(storage.feature_shape[0]);
  bool all_own = true, all_next = true;
  for (size_t i = 0; i + 1 < labels.size(); ++i) {
    if (labels[i] == kNoLabel || (i + 1) % length == 0) continue;
    all_own &= labels[i] == storage.tokens[i];
    all_next &= labels[i] == storage.tokens[i + 1];
  }
  RUN_CHECK(all_own || !all_next, ErrorKind::kData,
            "{}: the label of each token is the next token; expected the token itself, as transformers takes it, which "
            "is shifted when it is read; leave labels out if every next token is to be predicted",
            name);
}

// Moves each label to the token before.
void shift(std::span<int64_t> labels, size_t length) {
  for (size_t row = 0; row < labels.size(); row += length) {
    const std::span<int64_t> of_row = labels.subspan(row, length);
    std::ranges::copy(of_row.subspan(1), of_row.begin());
    of_row.back() = kNoLabel;
  }
}

void store(Storage& storage, LargeArray<int64_t> labels, LabelsAs as) {
  if (as == LabelsAs::kNextTokens) shift(labels, static_cast<size_t>(storage.feature_shape[0]));
  storage.classes = std::move(labels);
  storage.use_tokens_as_labels(as);
}

}  // namespace

void take_tokens(Storage& storage, const Array& array) {
  RUN_CHECK(array.shape.size() == 2, ErrorKind::kData, "{}: expected shape (N, T) of token ids, got {}", array.name,
            shape_text(array));
  const LargeArray<int64_t> ids = read_ids(array, "token id", INT32_MAX);
  storage.samples = array.shape[0];
  storage.feature_shape = {array.shape[1]};
  storage.tokens = LargeArray<int32_t>(ids.size());
  std::ranges::transform(ids, storage.tokens.begin(), [](int64_t id) { return static_cast<int32_t>(id); });
  storage.vocabulary = *std::ranges::max_element(ids) + 1;
}

void take_ids(Storage& storage, const Array& array, const char* name, int64_t vocabulary) {
  RUN_CHECK(has_shape_of_tokens(storage, array), ErrorKind::kData,
            "{}: expected shape ({}, {}) like the token ids, got {}", array.name, storage.samples,
            storage.feature_shape[0], shape_text(array));
  LargeArray<int64_t> ids = read_ids(array, name, vocabulary > 0 ? vocabulary : INT32_MAX);
  if (vocabulary == 0) vocabulary = *std::ranges::max_element(ids) + 1;
  storage.more_inputs.push_back({{name, backends::DType::kI64, storage.feature_shape, vocabulary}, std::move(ids)});
}

void take_mask(Storage& storage, const Array& array, const ReadOptions& options) {
  take_ids(storage, array, kMaskName, 2);
  if (options.labels != LabelsAs::kNextTokens) return;
  const LargeArray<int64_t>& mask = storage.more_inputs.back().ids;
  const auto length = static_cast<size_t>(storage.feature_shape[0]);
  for (size_t i = 1; i < mask.size(); ++i)
    RUN_CHECK(i % length == 0 || mask[i] <= mask[i - 1], ErrorKind::kData,
              "{}: sample {}: the mask hides token {}, but shows token {}; a model that predicts the next token sees "
              "all earlier ones, so put padding at the end",
              array.name, i / length, i % length - 1, i % length);
}

void hide_padding(const Storage& storage, std::span<int64_t> labels, int64_t no_label) {
  for (const IdInput& more : storage.more_inputs)
    for (size_t i = 0; more.input.name == kMaskName && i < labels.size(); ++i)
      if (more.ids[i] == 0) labels[i] = no_label;
}

bool has_shape_of_tokens(const Storage& storage, const Array& array) {
  return !storage.tokens.empty() && array.shape == std::vector<int64_t>{storage.samples, storage.feature_shape[0]};
}

void take_token_labels(Storage& storage, const Array& array, const ReadOptions& options) {
  RUN_CHECK(has_shape_of_tokens(storage, array) && is_integer(array.element), ErrorKind::kData,
            "{}: expected integers of shape ({}, {}), the label of each token, got shape {}", array.name,
            storage.samples, storage.feature_shape[0], shape_text(array));
  LargeArray<int64_t> labels = read_integers(array);
  if (options.ignore_index) std::ranges::replace(labels, *options.ignore_index, kNoLabel);
  hide_padding(storage, labels, kNoLabel);
  if (options.labels == LabelsAs::kNextTokens) refuse_shifted(storage, labels, array.name);
  store(storage, std::move(labels), options.labels);
}

bool take_tokens_as_labels(Storage& storage, const ReadOptions& options) {
  if (storage.tokens.empty() || options.labels != LabelsAs::kNextTokens) return false;
  LargeArray<int64_t> labels(storage.tokens.size());
  std::ranges::copy(storage.tokens, labels.begin());
  hide_padding(storage, labels, kNoLabel);
  store(storage, std::move(labels), options.labels);
  return true;
}

}  // namespace runner::data
