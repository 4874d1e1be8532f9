#include <memory>
#include <string>
#include <vector>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/data/labels.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/start_warnings.h"
#include "runner/train/loop/step_check.h"
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

struct Trial {
  std::string labels;  // data::labels_text()
  std::vector<std::string> warnings;
};

// Does what a run does before its first step, and compiles the steps.
Trial try_out(const schema::ReadResult& read, const train::Print& print) {
  const schema::Recipe& recipe = read.recipe;
  const train::MakeHooks make = usable_hooks(read, lua::hooks_maker({}, print));
  const std::unique_ptr<train::Hooks> hooks = make(recipe);
  train::Session session(recipe, hooks.get());
  const train::StepCheck check = train::check_steps(session, hooks.get(), make);
  if (check.shortage != nullptr) std::rethrow_exception(check.shortage);
  Trial trial{data::labels_text(session.data.encoding), session.data.warnings};
  for (std::string& text : session.plan_warnings()) trial.warnings.push_back(std::move(text));
  return trial;
}

int check(const CheckOptions& options, report::Output& out) {
  const schema::ReadResult recipe =
      read_recipe_file(options, out, /*quiet=*/false, /*reads_config=*/!options.static_only);
  Trial trial;
  if (options.static_only) {
    unrecorded([&] { usable_hooks(recipe, lua::hooks_maker({}, printer(out)))(recipe.recipe); });
  } else {
    trial = unrecorded([&] {
      return at_recipe_key(recipe, [&] { return in_hook_file([&] { return try_out(recipe, printer(out)); }); });
    });
  }
  std::vector<std::string> warnings = train::start_warnings(recipe);
  warnings.insert(warnings.end(), trial.warnings.begin(), trial.warnings.end());
  for (const std::string& text : warnings) out.colored_talk(report::warning_text(text, out.talk_color()));
  if (options.json) {
    out.data(report::check_document(warnings));
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
