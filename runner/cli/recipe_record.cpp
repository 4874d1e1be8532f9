#include "runner/cli/recipe_record.h"

#include <nlohmann/json.hpp>

#include "schema/recipe_identity.h"

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
  using Json = nlohmann::ordered_json;
  store::RecipeRecord record = record_of(after);
  Json origins = Json::parse(before.origins_json);
  const Json set_now = Json::parse(record.origins_json);
  for (const auto& [key, origin] : set_now.items()) {
    if (origin.at("kind") == schema::name_of(schema::OriginKind::kCommandLine) || !origins.contains(key)) {
      origins[key] = origin;
    }
  }
  record.text = before.text;
  record.origins_json = origins.dump();
  return record;
}

std::vector<store::Param> params_of(const schema::ReadResult& recipe) {
  std::vector<store::Param> params;
  for (const schema::FlatSetting& setting : schema::flat_settings(recipe)) {
    params.push_back({setting.path, param_value(setting.value)});
  }
  return params;
}

}  // namespace runner::cli
