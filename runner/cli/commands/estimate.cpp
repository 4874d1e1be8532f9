#include "runner/report/estimate.h"

#include <array>
#include <optional>

#include "backends/exec/backend.h"
#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/train/loop/session.h"
#include "schema/base/unrecorded.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {
namespace {

struct Choice {
  schema::Precision precision;
  std::string_view name;
};
constexpr std::array kChoices{Choice{schema::Precision::kNo, "no"}, Choice{schema::Precision::kBf16, "bf16"},
                              Choice{schema::Precision::kFp16, "fp16"}};

// Returns the memory estimate in a precision; nullopt if the memory does not suffice and it is not the precision of the
// recipe. Loads its own hooks, because a hook creates a model only once.
std::optional<train::StepEstimate> estimate_in(const schema::Recipe& recipe, schema::Precision precision,
                                               const train::Session& session, const train::Print& print) {
  schema::Recipe other = recipe;
  other.mixed_precision = precision;
  const std::unique_ptr<train::Hooks> hooks = lua::load_hooks(other, {}, print);
  try {
    return train::estimate_steps(other, session.data, session.plan, *session.device, hooks.get());
  } catch (const backends::OutOfMemory&) {
    if (precision == recipe.mixed_precision) throw;
    return std::nullopt;
  }
}

std::vector<report::PrecisionEstimate> estimates_of(const schema::ReadResult& read, const train::Print& print) {
  const schema::Recipe& recipe = read.recipe;
  const std::unique_ptr<train::Hooks> hooks = usable_hooks(read, lua::hooks_maker({}, print))(recipe);
  const train::Session session(recipe, hooks.get());
  std::vector<report::PrecisionEstimate> estimates;
  for (const Choice& choice : kChoices) {
    estimates.push_back({choice.name, choice.precision == recipe.mixed_precision,
                         estimate_in(recipe, choice.precision, session, print)});
  }
  return estimates;
}

int estimate(const RecipeOptions& options, report::Output& out) {
  const schema::ReadResult read = read_recipe_file(options, out);
  const schema::Recipe& recipe = read.recipe;
  const std::vector<report::PrecisionEstimate> estimates = unrecorded([&] { return estimates_of(read, printer(out)); });
  out.colored_data(options.json
                       ? report::estimate_document(estimates, recipe.num_processes)
                       : report::estimate_text(estimates, recipe.num_processes, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace

const Command kEstimateCommand{
    .name = "estimate",
    .group = Group::kRecipe,
    .summary = "estimate the memory that training needs, in each precision",
    .details =
        "Bytes of one process, computed from the steps that a run would compile: weights, gradients kept\n"
        "between batches, optimizer, activations, and the peak in training, evaluation and saving.  Data and\n"
        "the program itself are not counted.",
    .arguments = kRecipeArguments,
    .examples =
        "runner estimate recipes/digits.yaml\n"
        "runner estimate recipes/digits.yaml num_processes=4 --json",
    .other_names = "estimate-memory",
    .has_json = true,
    .action = action<estimate>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
