#include "runner/cli/recipe_record.h"

#include <algorithm>
#include <map>

#include "schema/base/json.h"
#include "schema/recipe/recipe_identity.h"

namespace runner::cli {
namespace {

store::Param::Value param_value(const schema::Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer;
  if (const double* number = value.number()) return *number;
  if (const std::string* text = value.text()) return *text;
  return {};
}

}  // namespace

store::RecipeRecord record_of(const schema::ReadResult& recipe) {
  return {schema::recipe_hash(recipe), recipe.text, schema::resolved_json(recipe), schema::origins_json(recipe)};
}

store::RecipeRecord record_of_resumed(const store::RecipeRecord& before, const schema::ReadResult& after) {
  store::RecipeRecord record = record_of(after);
  const json::Value then = json::parse(before.origins_json), now = json::parse(record.origins_json);
  const std::map<std::string, json::Value> former(json::members_of(then).begin(), json::members_of(then).end());
  json::Object origins;
  for (const auto& [key, origin] : json::members_of(now)) {
    const schema::Leaf* leaf = after.find(key);
    const bool set_now = leaf != nullptr && leaf->origin == schema::OriginKind::kCommandLine;
    origins.emplace_back(key, set_now || !former.contains(key) ? origin : former.at(key));
  }
  record.hash = schema::recipe_hash(with_paths_as_written(before, after));
  record.text = before.text;
  record.origins_json = json::line(origins);
  return record;
}

schema::ReadResult with_paths_as_written(const store::RecipeRecord& before, schema::ReadResult after) {
  const json::Value origins = json::parse(before.origins_json);
  for (const auto& [key, origin] : json::members_of(origins)) {
    const auto leaf = std::ranges::find(after.leaves, key, &schema::Leaf::path);
    if (leaf == after.leaves.end() || leaf->origin == schema::OriginKind::kCommandLine) continue;
    for (const auto& [name, value] : json::members_of(origin)) {
      if (name == "written") leaf->value = value;
    }
  }
  return after;
}

std::vector<store::Param> params_of(const schema::ReadResult& recipe) {
  std::vector<store::Param> params;
  for (const schema::FlatSetting& setting : schema::flat_settings(recipe)) {
    params.push_back({setting.path, param_value(setting.value)});
  }
  return params;
}

}  // namespace runner::cli
