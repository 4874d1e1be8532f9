#include "runner/cli/commands/commands.h"
#include "schema/recipe_reader.h"

namespace runner::cli {

int check(const Options& options, report::Output& out) {
  schema::read_recipe(options.recipe, options.overrides);
  out.data(options.json ? schema::render_json({}) : fmt::format("{} is a valid recipe\n", options.recipe));
  return 0;
}

}  // namespace runner::cli
