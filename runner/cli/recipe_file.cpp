#include "runner/cli/recipe_file.h"

#include "runner/formats/used_files.h"
#include "schema/recipe/recipe_warnings.h"

namespace runner::cli {

schema::ReadResult read_recipe_file(const RecipeOptions& options, report::Output& out, bool quiet) {
  schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  formats::remember_used_file(recipe.file, formats::FileRole::kRecipe);
  for (const auto& [file, text] : recipe.includes) formats::remember_used_file(file, formats::FileRole::kRecipe);
  if (const std::string text = schema::environment_text(recipe); !text.empty() && !quiet) out.say(text);
  return recipe;
}

}  // namespace runner::cli
