#include "runner/cli/commands/commands.h"
#include "runner/cli/recipe_faults.h"
#include "runner/report/error_text.h"
#include "schema/recipe_warnings.h"

namespace runner::cli {

int check(const Options& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  std::vector<schema::Diagnostic> faults = hook_faults(recipe);
  for (schema::Diagnostic& fault : device_faults(recipe)) faults.push_back(std::move(fault));
  if (!faults.empty()) throw schema::RecipeError(std::move(faults));
  for (const std::string& text : schema::recipe_warnings(recipe)) {
    out.talk(report::warning_text(text, out.talk_color()));
  }
  out.data(options.json ? schema::render_json({}) : fmt::format("{} is a valid recipe\n", options.recipe));
  return 0;
}

}  // namespace runner::cli
