#include "schema/recipe_identity.h"

#include <filesystem>

#include "schema/compose.h"
#include "schema/field_words.h"
#include "schema/sha256.h"
#include "schema/value_json.h"

namespace runner::schema {
namespace {

// The member of `document` that "a.b[0].c" names, made if need be.
Json& member_at(Json& document, std::string_view path) {
  Json* at = &document;
  while (!path.empty()) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    at = &(*at)[std::string(path.substr(0, end))];
    path.remove_prefix(end);
    if (path.starts_with('[')) {
      const size_t close = path.find(']');
      at = &(*at)[std::stoul(std::string(path.substr(1, close - 1)))];
      path.remove_prefix(close + 1);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
  }
  return *at;
}

std::string absolute(const std::string& folder, const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(join_path(folder, path), ignored).lexically_normal().string();
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
    // That an optional section exists says something, even where all its values are defaults.
    const Field* field = result.field_of(section.path);
    if (field != nullptr && field->optional && field->implied_by.empty()) text += section.path + "\n";
  }
  for (const Leaf& leaf : result.leaves) {
    const bool is_default = leaf.origin == OriginKind::kDefault || leaf.value == result.default_of(*leaf.field);
    if (leaf.path == "name" || is_default) continue;
    text += leaf.path + " = " + canonical_text(leaf.value) + "\n";
  }
  return text;
}

std::string recipe_hash(const ReadResult& result) {
  return hex(sha256(canonical_form(result)));
}

std::string resolved_json(const ReadResult& result) {
  Json document = Json::object();
  for (const Leaf& section : result.sections) {
    if (!section.path.empty()) member_at(document, section.path) = Json::object();
  }
  for (const Leaf& leaf : result.leaves) {
    const bool is_path = leaf.field->type == FieldType::kPath && leaf.value.text() != nullptr;
    member_at(document, leaf.path) =
        is_path ? Json(absolute(result.folder, *leaf.value.text())) : to_json(*leaf.field, leaf.value);
  }
  return dump(document);
}

std::string origins_json(const ReadResult& result) {
  Json document = Json::object();
  for (const Leaf& leaf : result.leaves) {
    Json& origin = document[leaf.path] = {{"kind", name_of(leaf.origin)}};
    const bool in_file = leaf.origin != OriginKind::kDefault && leaf.origin != OriginKind::kCommandLine;
    origin["file"] = in_file ? Json(leaf.mark.file) : Json();
    origin["line"] = in_file ? Json(leaf.mark.line) : Json();
    origin["column"] = in_file ? Json(leaf.mark.column) : Json();
  }
  return dump(document);
}

std::vector<FlatSetting> flat_settings(const ReadResult& result) {
  std::vector<FlatSetting> out;
  for (const Leaf& leaf : result.leaves) flatten(leaf.path, leaf.value, out);
  return out;
}

}  // namespace runner::schema
