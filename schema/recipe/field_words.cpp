#include "schema/recipe/field_words.h"

#include <cmath>

#include <fmt/format.h>

#include "schema/base/suggest.h"
#include "schema/base/value.h"
#include "schema/recipe/other_names.h"

namespace runner::schema {
namespace {

std::string bound_phrase(bool open, double value, std::string_view if_open, std::string_view if_closed) {
  return std::isinf(value) ? "" : fmt::format("{} {}", open ? if_open : if_closed, number_text(value));
}

}  // namespace

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kList: return "a list";
    case YamlNode::Kind::kMap: return "a section";
    case YamlNode::Kind::kNull: return "null";
    case YamlNode::Kind::kEmpty:
    case YamlNode::Kind::kInvalid: return "nothing";
    case YamlNode::Kind::kScalar: break;
  }
  if (!node.recorded.empty()) return "the text " + canonical_text(Value(node.recorded));
  if (node.text.empty()) return "an empty text";
  constexpr size_t kLongest = 60;
  const bool text = node.quoted || read_plain_scalar(node.text).value.text() != nullptr;
  const bool cut = node.text.size() > kLongest;
  size_t end = cut ? kLongest : node.text.size();
  while (cut && end > 0 && (node.text[end] & 0xC0) == 0x80) --end;
  const std::string shown = node.text.substr(0, end) + (cut ? "…" : "");
  return text ? "the text " + canonical_text(Value(shown)) : shown;
}

std::string type_phrase(const Field& field) {
  constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
      {"a section", "sections"},
      {"true or false", "booleans"},
      {"an integer", "integers"},
      {"a number", "numbers"},
      {"a text", "texts"},
      {"a path", "paths"},
      {"a name", "names"},
      {"a length", "lengths"},
      {"a size", "sizes"},
      {"one character", "characters"},
      {"a column's name or index", "columns"},
      {"a metric", "metrics"},
      {"a section", "sections"},
      {"balanced, a list of numbers or a map of class names to numbers", ""},
      {"a map of patterns to texts", ""},
  };
  const auto& [one, many] = kPhrases[static_cast<size_t>(field.type)];
  const std::string words = field.has_words() ? " or " + join_or(choice_names(field)) : "";
  const bool has_short = field.is_list && !field.shorthand.empty();
  return field.is_list ? fmt::format("a list of {}{}{}", many, words, has_short ? " and words" : "")
                       : std::string(one) + words;
}

std::string range_phrase(const Field& field) {
  const Range& range = field.range;
  if (field.type == FieldType::kInteger || field.type == FieldType::kLength) {
    if (range.least == range.most) return std::to_string(range.least);
    return fmt::format("between {} and {}", range.least, range.most);
  }
  const bool closed = !range.low_open && !range.high_open && !std::isinf(range.low) && !std::isinf(range.high);
  if (closed) return fmt::format("between {} and {}", number_text(range.low), number_text(range.high));
  const std::string low = bound_phrase(range.low_open, range.low, "greater than", "at least");
  const std::string high = bound_phrase(range.high_open, range.high, "less than", "at most");
  return low + (!low.empty() && !high.empty() ? " and " : "") + high;
}

std::vector<std::string> choice_names(const Field& field) {
  std::vector<std::string> names;
  for (const Choice& choice : field.choices) names.emplace_back(choice.name);
  return names;
}

std::string availability_phrase(const Field& field) {
  if (!field.later) return "";
  return field.defaults.empty() ? " Not implemented yet." : " Only the default is implemented yet.";
}

std::string length_text(int64_t count, std::string_view unit) {
  return fmt::format("{} {}", count, count == 1 ? unit.substr(0, unit.size() - 1) : unit);
}

std::string size_text(int64_t bytes) {
  for (const SizeUnit& unit : kSizeUnits)
    if (bytes % unit.bytes == 0) return fmt::format("{} {}", bytes / unit.bytes, unit.name);
  return {};
}

std::string readable_size(int64_t bytes) {
  constexpr size_t kMaxDigits = 4;
  std::string exact = size_text(bytes);
  if (exact.find(' ') <= kMaxDigits) return exact;
  for (const SizeUnit& unit : kSizeUnits)
    if (bytes >= unit.bytes)
      return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit.bytes), unit.name);
  return exact;
}

Value as_written(const Field& field, const Value& value) {
  const std::string* const choice = field.type == FieldType::kChoice ? value.text() : nullptr;
  if (choice != nullptr) return read_plain_scalar(*choice).value;
  const bool is_size = field.type == FieldType::kSize && value.integer() != nullptr;
  return is_size ? Value(size_text(*value.integer())) : value;
}

std::string child_path(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
}

bool is_within(std::string_view key, std::string_view section) {
  if (!key.starts_with(section)) return false;
  return key.size() == section.size() || key[section.size()] == '.' || key[section.size()] == '[';
}

std::string suggest_key(std::string_view schema, const std::string& path, std::string_view name) {
  if (const OtherKey* other = find_other_key(name)) return hint_of(*other);
  std::vector<std::string> own, elsewhere;
  for (const Field& field : fields_of(schema))
    if (own.empty() || own.back() != field.name) own.emplace_back(field.name);
  std::vector<std::string> near = nearest(name, own);
  for (std::string& n : near) n = child_path(path, n);
  if (!near.empty()) return did_you_mean(near);

  // Shorter names are similar to too many others. A section already narrows the choice.
  constexpr size_t kShortest = 6;
  int best = name.size() < kShortest || !path.empty() ? 0 : 1;
  for (const Field& field : fields()) {
    if (field.parent.find("[]") != std::string_view::npos) continue;
    const int distance = edit_distance(name, field.name);
    if (distance > best) continue;
    if (distance < best) elsewhere.clear();
    best = distance;
    if (elsewhere.empty() || elsewhere.back() != field.path()) elsewhere.push_back(field.path());
  }
  constexpr size_t kFew = 4;
  if (!elsewhere.empty() && elsewhere.size() <= kFew) return did_you_mean(elsewhere);
  constexpr size_t kMany = 16;
  if (own.size() > kMany) return "`runner schema` prints every key";
  std::string known;
  for (const std::string& n : own) known += (known.empty() ? "" : ", ") + n;
  return fmt::format("keys of {}: {}", path, known);
}

}  // namespace runner::schema
