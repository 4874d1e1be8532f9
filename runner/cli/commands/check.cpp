#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/cli/recipe_trial.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/train/loop/start_warnings.h"
#include "schema/base/unrecorded.h"

namespace runner::cli {
namespace {

struct CheckOptions : RecipeOptions {
  bool static_only = false;
};

constexpr Argument kCheckArguments[] = {
    kRecipeArgument,
    kOverridesArgument,
    {"--static", "", "check only what the recipe and the hook file say, without reading data",
     &CheckOptions::static_only}};

int check(const CheckOptions& options, report::Output& out) {
  const schema::ReadResult recipe =
      read_recipe_file(options, out, /*quiet=*/false, /*reads_config=*/!options.static_only);
  RecipeTrial trial;
  if (options.static_only) {
    unrecorded([&] { usable_hooks(recipe, lua::hooks_maker({}, printer(out)))(recipe.recipe); });
    trial.warnings = train::start_warnings(recipe);
  } else {
    trial = try_recipe(recipe, out);
  }
  print_warnings(trial, out);
  if (options.json) {
    out.data(report::check_document(trial.warnings));
  } else {
    out.data(fmt::format("{} is a valid recipe\n", options.recipe));
    if (!trial.labels.empty()) out.data(trial.labels + '\n');
  }
  return 0;
}

}  // namespace

const Command kCheckCommand{
    .name = "check",
    .group = Group::kRecipe,
    .summary = "list all errors of a recipe, and try its first steps",
    .details =
        "Reads the data, makes model and optimizers, and traces a training and an evaluation step.  Trains and\n"
        "records nothing.",
    .arguments = kCheckArguments,
    .examples =
        "runner check recipes/digits.yaml\n"
        "runner check recipes/digits.yaml optimizer.lr=1e-3 --json",
    .other_names = "validate lint",
    .has_json = true,
    .action = action<check>,
    .failure_document = report::failed_check_document,
};

}  // namespace runner::cli
