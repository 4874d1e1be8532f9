#include "runner/cli/recipe_file.h"

#include <vector>

#include <fmt/format.h>

#include "runner/formats/used_files.h"
#include "runner/model/pretrained.h"

namespace runner::cli {

std::string environment_text(const schema::ReadResult& recipe) {
  std::vector<std::string> names;
  for (const auto& [name, is_secret, is_set] : recipe.environment)
    if (is_set) names.push_back(name + (is_secret ? " (secret)" : ""));
  return names.empty() ? "" : fmt::format("the recipe reads from the environment: {}", fmt::join(names, ", "));
}

schema::ReadResult read_recipe_file(const RecipeOptions& options, report::Output& out, bool quiet, bool reads_config) {
  schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  if (reads_config) at_recipe_key(recipe, [&] { nn::apply_config(recipe); });
  formats::remember_used_file(recipe.file, formats::FileRole::kRecipe);
  for (const auto& [file, text] : recipe.includes) formats::remember_used_file(file, formats::FileRole::kRecipe);
  if (const std::string text = environment_text(recipe); !text.empty() && !quiet) out.say(text);
  return recipe;
}

std::optional<int64_t> given_processes(const schema::ReadResult& recipe) {
  const schema::Leaf* const leaf = recipe.find("num_processes");
  if (leaf == nullptr || leaf->origin == schema::OriginKind::kDefault) return std::nullopt;
  return recipe.recipe.num_processes;
}

schema::ReadResult with_processes(schema::ReadResult recipe, const RecipeOptions& options, int64_t processes,
                                  report::Output& out) {
  if (given_processes(recipe)) return recipe;
  RecipeOptions completed = options;
  completed.overrides.push_back(fmt::format("num_processes={}", processes));
  return read_recipe_file(completed, out, /*quiet=*/true);
}

void set_place_of_key(Error& error, const schema::ReadResult& recipe) {
  const std::string& key = error.in_recipe().key;
  if (!key.empty() && !recipe.is_recorded(key)) error.set_mark_of_key(recipe.mark_of(key));
}

}  // namespace runner::cli
