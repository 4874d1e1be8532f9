#include <memory>
#include <string>

#include "runner/cli/commands/commands.h"
#include "runner/cli/hook_faults.h"
#include "runner/lua/hook_file.h"
#include "runner/report/output.h"
#include "schema/recipe/recipe_warnings.h"

namespace runner::cli {

int check(const RecipeOptions& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  const std::unique_ptr<train::Hooks> hooks = usable_hooks(recipe, lua::hooks_maker())(recipe.recipe);
  for (const auto& warnings : {schema::recipe_warnings(recipe), check_optimizers(recipe, hooks.get())})
    for (const std::string& text : warnings) out.talk(report::warning_text(text, out.talk_color()));
  out.data(options.json ? schema::render_json({}) : fmt::format("{} is a valid recipe\n", options.recipe));
  return 0;
}

}  // namespace runner::cli
