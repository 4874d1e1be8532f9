#include "runner/cli/recipe_trial.h"

#include <memory>
#include <utility>

#include "runner/cli/hook_faults.h"
#include "runner/cli/recipe_file.h"
#include "runner/data/labels.h"
#include "runner/lua/hook_file.h"
#include "runner/train/loop/session.h"
#include "runner/train/loop/start_warnings.h"
#include "runner/train/loop/step_check.h"
#include "schema/base/unrecorded.h"

namespace runner::cli {
namespace {

RecipeTrial compile_steps(const schema::ReadResult& read, const train::Print& print) {
  const schema::Recipe& recipe = read.recipe;
  const train::MakeHooks make = usable_hooks(read, lua::hooks_maker({}, print));
  const std::unique_ptr<train::Hooks> hooks = make(recipe);
  train::Session session(recipe, hooks.get());
  const train::StepCheck check = train::check_steps(session, hooks.get(), make);
  if (check.shortage != nullptr) std::rethrow_exception(check.shortage);
  RecipeTrial trial{data::labels_text(session.data.encoding), train::start_warnings(read)};
  for (const auto& texts : {session.data.warnings, session.plan_warnings()})
    trial.warnings.insert(trial.warnings.end(), texts.begin(), texts.end());
  return trial;
}

}  // namespace

RecipeTrial try_recipe(const schema::ReadResult& recipe, report::Output& out) {
  return unrecorded([&] {
    return at_recipe_key(recipe, [&] { return in_hook_file([&] { return compile_steps(recipe, printer(out)); }); });
  });
}

void print_warnings(const RecipeTrial& trial, report::Output& out) {
  for (const std::string& text : trial.warnings) out.colored_talk(report::warning_text(text, out.talk_color()));
}

}  // namespace runner::cli
