#include "schema/explain.h"

#include "runner/cli/commands/commands.h"

namespace runner::cli {

int explain(const Options& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  out.data(options.json ? schema::explain_json(recipe, options.key) : schema::explain_text(recipe, options.key));
  return 0;
}

}  // namespace runner::cli
