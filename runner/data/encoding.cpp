#include "runner/data/encoding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "runner/data/image_shape.h"
#include "schema/base/error.h"
#include "schema/base/json.h"

namespace runner::data {

namespace {

using backends::DType;
using schema::Normalize;

// These words are stored in checkpoints: never change them.
constexpr std::pair<LabelKind, std::string_view> kLabelKinds[] = {
    {LabelKind::kNone, "none"}, {LabelKind::kClass, "class"}, {LabelKind::kTarget, "target"}};
constexpr std::pair<Normalize, std::string_view> kNormalizations[] = {{Normalize::kNone, "none"},
                                                                      {Normalize::kStandard, "standard"},
                                                                      {Normalize::kMinMax, "min_max"},
                                                                      {Normalize::kChannels, "channels"}};

template <class Enum, size_t N>
std::string_view word_of(Enum value, const std::pair<Enum, std::string_view> (&words)[N]) {
  return std::find_if(words, words + N, [&](const auto& entry) { return entry.first == value; })->second;
}

// Reads the word at `key`.
template <class Enum, size_t N>
Enum read_word(const json::ObjectReader& document, const char* key,
               const std::pair<Enum, std::string_view> (&words)[N]) {
  const json::Value& written = document.at(key);
  std::vector<std::string_view> known;
  for (const auto& [value, word] : words) {
    if (written.text() != nullptr && *written.text() == word) return value;
    known.push_back(word);
  }
  fail(ErrorKind::kStore, "{} is {}, expected one of {}", key, json::compact(written), fmt::join(known, ", "));
}

// Number of values of a statistic.
int64_t statistics_of(const Encoding& encoding) {
  const std::optional<ImageShape> image = image_shape_of(encoding.feature_shape);
  if (encoding.normalize != Normalize::kChannels) return encoding.feature_shape.elements();
  RUN_CHECK(image.has_value(), ErrorKind::kStore, "normalize is channels, but the features are {}",
            encoding.feature_shape.to_string());
  return image->channels;
}

// Checks the lengths of the statistics: one value per feature, or per channel, if present.
void check_sizes(const Encoding& encoding) {
  const auto check = [](const char* key, size_t size, bool needed, int64_t expected) {
    RUN_CHECK(needed ? size == static_cast<size_t>(expected) : size == 0, ErrorKind::kStore,
              "{} has {} values, expected {}", key, size, needed ? expected : 0);
  };
  const int64_t width = encoding.feature_shape.elements();
  RUN_CHECK(encoding.outputs >= 0, ErrorKind::kStore, "outputs is {}, expected 0 or more", encoding.outputs);
  RUN_CHECK(encoding.vocabulary >= 0, ErrorKind::kStore, "vocabulary is {}, expected 0 or more", encoding.vocabulary);
  RUN_CHECK(encoding.sequence == 0 || encoding.feature_shape == backends::Shape{encoding.sequence}, ErrorKind::kStore,
            "sequence is {}, expected 0 or the width of a sample", encoding.sequence);
  RUN_CHECK(encoding.more_inputs.size() < kMaxInputs, ErrorKind::kStore,
            "more_inputs has {} inputs, expected at most {}", encoding.more_inputs.size(), kMaxInputs - 1);
  const int64_t statistics = statistics_of(encoding);
  check("center", encoding.center.size(), encoding.normalize != Normalize::kNone, statistics);
  check("center_rest", encoding.center_rest.size(), !encoding.center_rest.empty(), width);
  check("spread", encoding.spread.size(), encoding.normalize != Normalize::kNone, statistics);
  check("fill", encoding.fill.size(), !encoding.fill.empty(), width);
  check("fill_rest", encoding.fill_rest.size(), !encoding.fill_rest.empty(), width);
  check("class_names", encoding.class_names.size(), !encoding.class_names.empty(),
        encoding.predicts_tokens() ? encoding.vocabulary : encoding.outputs);
  check("class_values", encoding.class_values.size(), !encoding.class_values.empty(), encoding.outputs);
  check("balanced_weights", encoding.balanced_weights.size(), !encoding.balanced_weights.empty(), encoding.outputs);
  check("feature_names", encoding.feature_names.size(), !encoding.feature_names.empty(), width);
}

json::Value object_of(const SampleInput& input) {
  return json::Object{
      {"name", input.name}, {"shape", json::list_of(input.shape.dims())}, {"vocabulary", input.vocabulary}};
}

SampleInput input_of(const json::Value& value) {
  const json::ObjectReader object(value);
  return {object.text("name"), DType::kI64, backends::Shape(object.integers("shape")), object.integer("vocabulary")};
}

const json::List& list_in(const json::Value& value) {
  RUN_CHECK(value.list() != nullptr, ErrorKind::kStore, "more_inputs is {}, expected a list", json::compact(value));
  return *value.list();
}

// Older versions do not write labels_own_token; their labels are the next tokens, or masked ones.
TokenLabels read_token_labels(const json::ObjectReader& document, const Encoding& encoding) {
  const bool are_tokens =
      document.find("predicts_tokens") != nullptr ? document.boolean("predicts_tokens") : encoding.has_token_labels();
  if (!are_tokens) return TokenLabels::kNone;
  return encoding.masking || document.find("labels_own_token") != nullptr ? TokenLabels::kOwn : TokenLabels::kNext;
}

}  // namespace

std::vector<std::string> Encoding::classes() const {
  if (label_kind != LabelKind::kClass || !class_names.empty()) return class_names;
  std::vector<std::string> numbers;
  for (int64_t i = 0; i < outputs; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

std::vector<SampleInput> Encoding::inputs() const {
  std::vector<SampleInput> all{{kFeaturesName, has_tokens() ? DType::kI64 : DType::kF32, feature_shape, vocabulary}};
  all.insert(all.end(), more_inputs.begin(), more_inputs.end());
  return all;
}

// Members are sorted by name: a checkpoint with the same contents has the same bytes. Older versions can read
// checkpoints without the optional members. Without them, a label of a token is the next token.
std::string Encoding::to_json() const {
  json::Object document;
  if (!balanced_weights.empty()) document.emplace_back("balanced_weights", json::list_of(balanced_weights));
  document.emplace_back("center", json::list_of(center));
  if (!center_rest.empty()) document.emplace_back("center_rest", json::list_of(center_rest));
  document.emplace_back("class_names", json::list_of(class_names));
  if (!class_values.empty()) document.emplace_back("class_values", json::list_of(class_values));
  document.emplace_back("feature_names", json::list_of(feature_names));
  document.emplace_back("feature_shape", json::list_of(feature_shape.dims()));
  document.emplace_back("fill", json::list_of(fill));
  if (!fill_rest.empty()) document.emplace_back("fill_rest", json::list_of(fill_rest));
  if (ignore_index) document.emplace_back("ignore_index", *ignore_index);
  if (ignored_label) document.emplace_back("ignored_label", *ignored_label);
  if (images) document.emplace_back("images", images->to_json());
  document.emplace_back("label_kind", std::string(word_of(label_kind, kLabelKinds)));
  document.emplace_back("label_name", label_name);
  if (token_labels == TokenLabels::kOwn && !masking) document.emplace_back("labels_own_token", true);
  if (masking) document.emplace_back("masking", masking->to_json());
  if (!more_inputs.empty()) document.emplace_back("more_inputs", json::list_of(more_inputs, object_of));
  document.emplace_back("normalize", std::string(word_of(normalize, kNormalizations)));
  document.emplace_back("outputs", outputs);
  if (predicts_tokens() != has_token_labels()) document.emplace_back("predicts_tokens", predicts_tokens());
  if (reconstructs) document.emplace_back("reconstructs", true);
  if (has_token_labels()) document.emplace_back("sequence", sequence);
  document.emplace_back("spread", json::list_of(spread));
  if (texts) document.emplace_back("texts", texts->to_json());
  if (vocabulary != (predicts_tokens() ? outputs : 0)) document.emplace_back("vocabulary", vocabulary);
  return json::compact(document);
}

Encoding Encoding::from_json(std::string_view text) {
  try {
    const json::Value parsed = json::parse(text);
    const json::ObjectReader document(parsed);
    Encoding encoding;
    encoding.feature_shape = backends::Shape(document.integers("feature_shape"));
    encoding.label_kind = read_word(document, "label_kind", kLabelKinds);
    encoding.normalize = read_word(document, "normalize", kNormalizations);
    encoding.outputs = document.integer("outputs");
    encoding.sequence = document.integer("sequence", 0);
    if (const json::Value* masking = document.find("masking")) encoding.masking = Masking::from_json(*masking);
    encoding.token_labels = read_token_labels(document, encoding);
    encoding.vocabulary = document.integer("vocabulary", encoding.predicts_tokens() ? encoding.outputs : 0);
    if (const json::Value* inputs = document.find("more_inputs"))
      for (const json::Value& input : list_in(*inputs)) encoding.more_inputs.push_back(input_of(input));
    if (const json::Value* images = document.find("images")) encoding.images = ImageReading::from_json(*images);
    if (const json::Value* texts = document.find("texts")) encoding.texts = TextEncoding::from_json(*texts);
    encoding.class_names = document.texts("class_names");
    if (document.find("class_values") != nullptr) encoding.class_values = document.integers("class_values");
    if (document.find("balanced_weights") != nullptr) encoding.balanced_weights = document.numbers("balanced_weights");
    if (document.find("ignore_index") != nullptr) encoding.ignore_index = document.integer("ignore_index");
    if (document.find("ignored_label") != nullptr) encoding.ignored_label = document.integer("ignored_label");
    encoding.reconstructs = document.find("reconstructs") != nullptr;
    encoding.feature_names = document.texts("feature_names");
    encoding.label_name = document.text("label_name");
    encoding.center = document.numbers("center");
    if (document.find("center_rest") != nullptr) encoding.center_rest = document.numbers("center_rest");
    encoding.spread = document.numbers("spread");
    encoding.fill = document.numbers("fill");
    if (document.find("fill_rest") != nullptr) encoding.fill_rest = document.numbers("fill_rest");
    check_sizes(encoding);
    return encoding;
  } catch (const Error& error) {
    fail(ErrorKind::kStore, "the data encoding is damaged: {}", error.message());
  }
}

}  // namespace runner::data
