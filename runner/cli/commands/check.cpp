#include "runner/cli/commands/commands.h"
#include "runner/lua/hook_file.h"
#include "runner/report/format.h"
#include "schema/recipe_warnings.h"

namespace runner::cli {

int check(const Options& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  lua::load_hooks(recipe.recipe);
  for (const std::string& text : schema::recipe_warnings(recipe))
    out.talk(fmt::format("{} {}\n", report::painted("warning:", report::Color::kYellow, out.talk_color()), text));
  out.data(options.json ? schema::render_json({}) : fmt::format("{} is a valid recipe\n", options.recipe));
  return 0;
}

}  // namespace runner::cli
