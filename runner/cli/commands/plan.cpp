#include "runner/cli/commands/commands.h"
#include "runner/data/order.h"
#include "runner/report/session_text.h"
#include "runner/train/session.h"
#include "schema/recipe_reader.h"

namespace runner::cli {

int plan(const Options& options, report::Output& out) {
  const schema::ReadResult read = schema::read_recipe(options.recipe, options.overrides);
  const train::Session session(read.recipe);
  if (!options.json) {
    out.data(report::session_text(session));
    return 0;
  }
  data::Order order(session.data.train.size(), session.data_seed(), read.recipe.data.shuffle);
  out.data(data::plan_json(session.plan, order, options.epochs, options.batches) + '\n');
  return 0;
}

}  // namespace runner::cli
