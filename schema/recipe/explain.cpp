#include "schema/recipe/explain.h"

#include <algorithm>

#include "schema/base/json.h"
#include "schema/base/suggest.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/json_schema.h"

namespace runner::schema {
namespace {

struct Explanation {
  const Field* field;
  const Leaf* leaf;  // the value, the section, or null
};

const Leaf* section_of(const ReadResult& result, const std::string& path) {
  const auto at = std::find_if(result.sections.begin(), result.sections.end(),
                               [&](const Leaf& section) { return section.path == path; });
  return at != result.sections.end() ? &*at : nullptr;
}

// The leaves below a section.
std::vector<const Leaf*> leaves_below(const ReadResult& result, const std::string& section) {
  std::vector<const Leaf*> leaves;
  for (const Leaf& leaf : result.leaves) {
    const bool below = leaf.path.starts_with(section) && leaf.path.size() > section.size();
    if (below && (section.empty() || leaf.path[section.size()] == '.' || leaf.path[section.size()] == '['))
      leaves.push_back(&leaf);
  }
  return leaves;
}

std::string near_key(const ReadResult& result, const std::string& key) {
  if (key.starts_with("vars.")) {
    std::string names;
    for (const Leaf* leaf : leaves_below(result, "vars")) names += (names.empty() ? "" : ", ") + leaf->path;
    return "variables: " + (names.empty() ? "none" : names);
  }
  const size_t dot = key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : key.substr(0, dot);
  return suggest_key(section, section, key.substr(section.empty() ? 0 : dot + 1));
}

Explanation find(const ReadResult& result, const std::string& key) {
  const Field* field = result.field_of(key);
  const Leaf* leaf = result.find(key);
  if (leaf == nullptr) leaf = section_of(result, key);
  if (field != nullptr && (leaf != nullptr || field->type != FieldType::kFree || field->path() == key ||
                           !leaves_below(result, key).empty())) {
    return {field, leaf};
  }
  fail(ErrorKind::kUsage, "unknown key {}; {}", key, near_key(result, key));
}

bool is_group(const Field& field) {
  return field.is_section() || field.type == FieldType::kFree;
}

Value default_value(const ReadResult& result, const Explanation& found) {
  const bool derived = found.leaf != nullptr && found.leaf->origin == OriginKind::kDefault;
  return derived ? found.leaf->value : result.default_of(*found.field);
}

std::string unit_of(const Explanation& found) {
  if (found.field->type != FieldType::kLength) return std::string(found.field->unit);
  const std::string* text = found.leaf != nullptr ? found.leaf->value.text() : nullptr;
  return text != nullptr ? text->substr(text->find(' ') + 1) : "";
}

bool in_file(const Leaf* leaf) {
  return leaf != nullptr && leaf->origin != OriginKind::kDefault && leaf->origin != OriginKind::kCommandLine;
}

std::string origin_text(const Leaf* leaf) {
  if (leaf == nullptr || leaf->origin == OriginKind::kDefault) return "default";
  if (leaf->origin == OriginKind::kCommandLine) return "command line";
  return fmt::format("{} {}", name_of(leaf->origin), leaf->mark.to_string());
}

std::string value_text(const Field& field, const Value& value) {
  if (value.is_null()) return "not set";
  // In quotes: the rest of the text would look like lines of the program.
  if (value.text() != nullptr && value.text()->find_first_of("\r\n") != std::string::npos) return canonical_text(value);
  return field.type == FieldType::kSize && value.integer() != nullptr ? size_text(*value.integer())
                                                                      : display_text(value);
}

// "number, at least 0; default 0.001"
std::string type_text(const ReadResult& result, const Explanation& found) {
  const Field& field = *found.field;
  std::string text = type_name(field);
  if (!field.choices.empty()) text += ": " + join_or(choice_names(field));
  const std::string range = range_phrase(field);
  if (!range.empty()) text += ", " + range;
  const std::string unit = unit_of(found);
  if (!unit.empty() && field.type != FieldType::kLength) text += ", in " + unit;
  const Value fallback = default_value(result, found);
  if (field.required) return text + "; required";
  return text + (fallback.is_null() ? "; no default" : "; default " + value_text(field, fallback));
}

// Returns why a field has no value, if other keys are the reason.
std::string condition_text(const ReadResult& result, const Field& field) {
  std::vector<std::string> needs;
  for (const Condition& condition : field.when) {
    if (result.holds({&condition, 1})) continue;
    const std::vector<std::string> values(condition.values.begin(), condition.values.end());
    needs.push_back(fmt::format("{}: {}", condition.path, join_or(values)));
  }
  return needs.empty() ? "" : fmt::format("needs {}\n", fmt::join(needs, " and "));
}

// Returns one line per value below a section.
std::string values_text(const ReadResult& result, const std::string& section, const char* indent) {
  std::string text;
  for (const Leaf* leaf : leaves_below(result, section)) {
    text += fmt::format("{}{} = {}  ({})\n", indent, leaf->path, value_text(*leaf->field, leaf->for_record()),
                        origin_text(leaf));
  }
  return text;
}

// Returns the values below a section by their paths in it.
ValueMap values_of(const ReadResult& result, const std::string& section) {
  ValueMap values;
  for (const Leaf* leaf : leaves_below(result, section)) {
    const size_t begin = section.empty() ? 0 : section.size() + 1;
    values.emplace_back(leaf->path.substr(begin), as_written(*leaf->field, leaf->for_record()));
  }
  return values;
}

}  // namespace

std::string explain_text(const ReadResult& result, const std::string& key) {
  if (key.empty()) return values_text(result, key, "");
  const Explanation found = find(result, key);
  const Field& field = *found.field;
  if (is_group(field) && result.find(key) == nullptr) {
    const std::string text = fmt::format("{}: {}{}\n", key, field.text, availability_phrase(field));
    return text + values_text(result, key, "  ");
  }
  const Value value = found.leaf != nullptr ? found.leaf->for_record() : Value();
  return fmt::format("{} = {}\n{}{}\n{}from: {}\n{}", key, value_text(field, value), field.text,
                     availability_phrase(field), field.type == FieldType::kFree ? "" : type_text(result, found) + "\n",
                     origin_text(found.leaf), found.leaf == nullptr ? condition_text(result, field) : "");
}

std::string explain_json(const ReadResult& result, const std::string& key, const ValueMap& more) {
  if (key.empty()) return json::text(json::Object{{"key", Value()}, {"value", values_of(result, key)}});
  const Explanation found = find(result, key);
  const Field& field = *found.field;
  Value value, fallback;
  if (is_group(field) && result.find(key) == nullptr) {
    value = values_of(result, key);
  } else {
    if (found.leaf != nullptr) value = as_written(field, found.leaf->for_record());
    fallback = as_written(field, default_value(result, found));
  }
  const std::string unit = unit_of(found);
  const bool placed = in_file(found.leaf);
  const json::Object origin{
      {"kind", std::string(name_of(found.leaf != nullptr ? found.leaf->origin : OriginKind::kDefault))},
      {"file", placed ? Value(found.leaf->mark.file) : Value()},
      {"line", placed ? Value(found.leaf->mark.line) : Value()}};
  json::Object document{{"key", key},
                        {"value", value},
                        {"type", type_name(field)},
                        {"default", fallback},
                        {"unit", json::or_null(unit)},
                        {"origin", origin},
                        {"text", std::string(field.text) + availability_phrase(field)}};
  document.insert(document.end(), more.begin(), more.end());
  return json::text(document);
}

std::vector<KeyText> key_texts() {
  std::vector<KeyText> rows;
  for (const Field& field : fields())
    if (std::ranges::find(rows, field.path(), &KeyText::key) == rows.end()) rows.push_back({field.path(), field.text});
  return rows;
}

std::string explain_field(const std::string& key) {
  const std::vector<std::string> paths = paths_ending_with(key);
  const std::string path = find_fields(key).empty() && paths.size() == 1 ? paths[0] : key;
  const std::span<const Field> variants = find_fields(path);
  RUN_CHECK(!variants.empty(), ErrorKind::kUsage, "unknown key {}; {}", key,
            paths.empty() ? near_key(ReadResult(), key) : did_you_mean(paths));
  if (variants[0].is_section()) {
    std::string text = fmt::format("{}: {}\n", path, variants[0].text);
    for (const Field& field : fields_of(path)) text += fmt::format("  {}: {}\n", field.path(), field.text);
    return text;
  }
  std::string text;
  for (const Field& field : variants) {
    const FieldReference about = reference_of(field);
    const std::string fallback =
        field.required || about.fallback.empty() ? about.fallback : "default " + about.fallback;
    text += fmt::format("{}: {}{}{}\n{}\n", path, about.type, fallback.empty() ? "" : "; ", fallback, about.meaning);
  }
  return text;
}

}  // namespace runner::schema
