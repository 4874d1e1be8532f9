#include "runner/data/encoding.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "schema/base/error.h"

namespace runner::data {

using Json = nlohmann::json;

namespace {

using schema::Normalize;

// These words are stored in checkpoints: never change them.
constexpr std::pair<LabelKind, std::string_view> kLabelKinds[] = {
    {LabelKind::kNone, "none"}, {LabelKind::kClass, "class"}, {LabelKind::kTarget, "target"}};
constexpr std::pair<Normalize, std::string_view> kNormalizations[] = {
    {Normalize::kNone, "none"}, {Normalize::kStandard, "standard"}, {Normalize::kMinMax, "min_max"}};

template <class Enum, size_t N>
std::string_view word_of(Enum value, const std::pair<Enum, std::string_view> (&words)[N]) {
  return std::find_if(words, words + N, [&](const auto& entry) { return entry.first == value; })->second;
}

// Reads the word at `key`. from_json() adds context to the error.
template <class Enum, size_t N>
Enum read_word(const Json& document, const char* key, const std::pair<Enum, std::string_view> (&words)[N]) {
  const Json& written = document.at(key);
  std::vector<std::string_view> known;
  for (const auto& [value, word] : words) {
    if (written == word) return value;
    known.push_back(word);
  }
  fail(ErrorKind::kStore, "{} is {}, expected one of {}", key, written.dump(), fmt::join(known, ", "));
}

std::vector<int64_t> dims_of(const backends::Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// Checks the lengths of the statistics: one value per feature if present.
void check_sizes(const Encoding& encoding) {
  const auto check = [](const char* key, size_t size, bool needed, int64_t wanted) {
    RUN_CHECK(needed ? size == static_cast<size_t>(wanted) : size == 0, ErrorKind::kStore,
              "{} holds {} values, expected {}", key, size, needed ? wanted : 0);
  };
  const int64_t width = encoding.feature_shape.elements();
  RUN_CHECK(encoding.outputs >= 0, ErrorKind::kStore, "outputs is {}, expected 0 or more", encoding.outputs);
  RUN_CHECK(encoding.sequence == 0 || encoding.feature_shape == backends::Shape{encoding.sequence}, ErrorKind::kStore,
            "sequence is {}, expected 0 or the width of a sample", encoding.sequence);
  check("center", encoding.center.size(), encoding.normalize != Normalize::kNone, width);
  check("spread", encoding.spread.size(), encoding.normalize != Normalize::kNone, width);
  check("fill", encoding.fill.size(), !encoding.fill.empty(), width);
  check("class_names", encoding.class_names.size(), !encoding.class_names.empty(), encoding.outputs);
  check("feature_names", encoding.feature_names.size(), !encoding.feature_names.empty(), width);
}

}  // namespace

std::string Encoding::to_json() const {
  Json document{{"feature_shape", dims_of(feature_shape)},
                {"label_kind", word_of(label_kind, kLabelKinds)},
                {"outputs", outputs},
                {"class_names", class_names},
                {"feature_names", feature_names},
                {"label_name", label_name},
                {"normalize", word_of(normalize, kNormalizations)},
                {"center", center},
                {"spread", spread},
                {"fill", fill}};
  if (sequence > 0) document["sequence"] = sequence;  // older versions can then read checkpoints of other data
  return document.dump();
}

Encoding Encoding::from_json(std::string_view text) {
  try {
    const Json document = Json::parse(text);
    Encoding encoding;
    encoding.feature_shape = backends::Shape(document.at("feature_shape").get<std::vector<int64_t>>());
    encoding.label_kind = read_word(document, "label_kind", kLabelKinds);
    encoding.normalize = read_word(document, "normalize", kNormalizations);
    document.at("outputs").get_to(encoding.outputs);
    encoding.sequence = document.value("sequence", int64_t{0});
    document.at("class_names").get_to(encoding.class_names);
    document.at("feature_names").get_to(encoding.feature_names);
    document.at("label_name").get_to(encoding.label_name);
    document.at("center").get_to(encoding.center);
    document.at("spread").get_to(encoding.spread);
    document.at("fill").get_to(encoding.fill);
    check_sizes(encoding);
    return encoding;
  } catch (const Error& error) {
    fail(ErrorKind::kStore, "the data encoding is damaged: {}", error.message());
  } catch (const Json::exception& error) {
    fail(ErrorKind::kStore, "the data encoding is damaged: {}", error.what());
  }
}

}  // namespace runner::data
