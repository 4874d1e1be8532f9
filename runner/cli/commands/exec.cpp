#include "runner/cli/commands/shared_options.h"
#include "runner/cli/launcher.h"
#include "runner/cli/recipe_file.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/training.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

struct ExecOptions : RecipeOptions {
  bool quiet = false;
};

constexpr Argument kExecArguments[] = {kRecipeArgument, kOverridesArgument, kHostsArgument,
                                       quiet_argument(&ExecOptions::quiet)};

int exec(const ExecOptions& options, report::Output& out) {
  if (const auto code = continue_lost_run(/*fork=*/nullptr, options, options.quiet, out)) return *code;
  schema::ReadResult recipe = read_recipe_file(options, out, options.quiet);
  if (const train::MpiRanks* const ranks = launched_ranks())
    recipe = with_processes(std::move(recipe), options, ranks->size(), out);
  AttemptStart start{.folder = recipe.folder, .includes = includes_of(recipe)};
  store::RecipeRecord record = record_of(recipe);
  std::vector<store::Param> params = params_of(recipe);
  return run_and_report({std::move(recipe), std::move(record), std::move(params), std::move(start)}, options,
                        options.quiet, out);
}

}  // namespace

const Command kExecCommand{
    .name = "exec",
    .group = Group::kTrain,
    .summary = "train the model that a recipe declares",
    .details =
        "KEY=VALUE settings override the recipe; each key may be given once.  Paths in them are relative to the\n"
        "recipe.  `runner explain` lists all keys, `runner explain KEY` describes one; docs/recipe.md is the\n"
        "reference, and `runner schema` prints a JSON Schema for editors.",
    .arguments = kExecArguments,
    .examples =
        "runner exec recipes/digits.yaml\n"
        "runner exec recipes/digits.yaml train.epochs=5 optimizer.lr=3e-4 --json",
    .other_names = "train run fit start",
    .has_json = true,
    .trains_in_all_processes = true,
    .action = action<exec>,
    .failure_document = report::failed_run_document,
};

}  // namespace runner::cli
