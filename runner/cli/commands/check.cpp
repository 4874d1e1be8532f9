#include <memory>
#include <string>

#include "runner/cli/commands/commands.h"
#include "runner/cli/hook_faults.h"
#include "runner/lua/hook_file.h"
#include "runner/report/output.h"
#include "schema/base/unrecorded.h"
#include "schema/recipe/recipe_warnings.h"

namespace runner::cli {

int check(const RecipeOptions& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  const std::vector<std::string> of_hook = unrecorded([&] {
    return check_model_and_optimizers(recipe, usable_hooks(recipe, lua::hooks_maker())(recipe.recipe).get());
  });
  for (const auto& warnings : {schema::recipe_warnings(recipe), of_hook})
    for (const std::string& text : warnings) out.talk(report::warning_text(text, out.talk_color()));
  out.data(options.json ? schema::render_json({}) : fmt::format("{} is a valid recipe\n", options.recipe));
  return 0;
}

}  // namespace runner::cli
