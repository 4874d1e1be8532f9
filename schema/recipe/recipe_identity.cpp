#include "schema/recipe/recipe_identity.h"

#include <algorithm>
#include <filesystem>

#include "schema/base/json.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/substitute.h"

namespace runner::schema {
namespace {

// Return a member of an object and an element of a list; create it if it does not exist.
Value& member(Value& object, std::string_view key) {
  if (object.is_null()) object = ValueMap();
  auto& members = std::get<ValueMap>(object);
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.first == key; });
  return found != members.end() ? found->second : members.emplace_back(std::string(key), Value()).second;
}
Value& element(Value& list, size_t index) {
  if (list.is_null()) list = ValueList();
  auto& elements = std::get<ValueList>(list);
  if (index >= elements.size()) elements.resize(index + 1);
  return elements[index];
}

// Returns the member of `document` at a path such as "a.b[0].c"; creates it if it does not exist.
Value& member_at(Value& document, std::string_view path) {
  Value* at = &document;
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    at = &member(*at, path.substr(0, end));
    path.remove_prefix(end);
    if (path.starts_with('[')) {
      const size_t close = path.find(']');
      at = &element(*at, std::stoul(std::string(path.substr(1, close - 1))));
      path.remove_prefix(close + 1);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
  }
  return *at;
}

bool is_path(const Leaf& leaf) {
  return leaf.field->type == FieldType::kPath && leaf.value.text() != nullptr &&
         !leaf.field->is_word(*leaf.value.text());
}

// Returns a text of the resolved recipe that reads back as `value`.
Value escaped(const Value& value) {
  if (const std::string* text = value.text()) return escape_references(*text, References::kSecret);
  if (const ValueList* list = value.list()) {
    ValueList out;
    for (const Value& element : *list) out.push_back(escaped(element));
    return out;
  }
  if (value.map() == nullptr) return value;
  ValueMap out;
  for (const auto& [key, member] : *value.map()) out.emplace_back(key, escaped(member));
  return out;
}

std::string absolute(const std::string& folder, const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(join_path(folder, path), ignored).lexically_normal().string();
}

// The value in the resolved recipe.
Value resolved_value(const ReadResult& result, const Leaf& leaf) {
  const bool is_relative = is_path(leaf) && !leaf.value.text()->starts_with('/');
  if (!leaf.recorded.is_null())
    return is_relative ? Value(absolute(result.folder, *leaf.recorded.text())) : leaf.recorded;
  return escaped(is_path(leaf) ? Value(absolute(result.folder, *leaf.value.text()))
                               : as_written(*leaf.field, leaf.value));
}

void flatten(const std::string& path, const Value& value, std::vector<FlatSetting>& out) {
  if (const ValueList* list = value.list()) {
    for (size_t i = 0; i < list->size(); ++i) flatten(fmt::format("{}[{}]", path, i), (*list)[i], out);
  } else if (const ValueMap* map = value.map()) {
    for (const auto& [key, member] : *map) flatten(child_path(path, key), member, out);
  } else {
    out.push_back({path, value});
  }
}

}  // namespace

std::string canonical_form(const ReadResult& result) {
  std::string text;
  for (const Leaf& section : result.sections) {
    // The existence of an optional section matters even if all its values are defaults.
    const Field* field = result.field_of(section.path);
    if (field != nullptr && field->optional && field->implied_by.empty()) text += section.path + "\n";
  }
  for (const Leaf& leaf : result.leaves) {
    const bool is_default = leaf.origin == OriginKind::kDefault || leaf.value == result.default_of(*leaf.field);
    if (leaf.path == "name" || is_default) continue;
    text += leaf.path + " = " + canonical_text(leaf.for_record()) + "\n";
  }
  return text;
}

std::string recipe_hash(const ReadResult& result) {
  return hex(sha256(canonical_form(result)));
}

std::string resolved_json(const ReadResult& result) {
  Value document = ValueMap();
  for (const Leaf& section : result.sections) {
    if (!section.path.empty()) member_at(document, section.path) = ValueMap();
  }
  for (const Leaf& leaf : result.leaves) {
    member_at(document, leaf.path) = resolved_value(result, leaf);
  }
  return json::text(document);
}

std::string origins_json(const ReadResult& result) {
  json::Object document;
  for (const Leaf& leaf : result.leaves) {
    const bool in_file = leaf.origin != OriginKind::kDefault && leaf.origin != OriginKind::kCommandLine;
    json::Object origin{{"kind", std::string(name_of(leaf.origin))},
                        {"file", in_file ? Value(leaf.mark.file) : Value()},
                        {"line", in_file ? Value(leaf.mark.line) : Value()},
                        {"column", in_file ? Value(leaf.mark.column) : Value()}};
    if (is_path(leaf)) origin.emplace_back("written", leaf.for_record());
    document.emplace_back(leaf.path, std::move(origin));
  }
  return json::text(document);
}

std::vector<FlatSetting> flat_settings(const ReadResult& result) {
  std::vector<FlatSetting> out;
  for (const Leaf& leaf : result.leaves) flatten(leaf.path, leaf.for_record(), out);
  return out;
}

}  // namespace runner::schema
