#include "runner/cli/attempt.h"

#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/model/initial_weights.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "schema/recipe/resume_check.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the recipe at the start of the run, or the current folder if the recipe is no longer there.
std::string folder_of_recipe(const store::RecipeRecord& record) {
  const json::Value origins = json::parse(record.origins_json);
  const std::string file = json::text_of(json::member(json::member(origins, "schema_version"), "file"));
  std::error_code ignored;
  return fs::exists(file, ignored) ? folder_of(file) : "";
}

// A resumed run is the same experiment: it uses the recorded hook, like the recorded recipe, unless the command line
// names a file.
void resume_with_hook(AttemptStart& start, RecordedHook hook, bool named) {
  const bool changed = hook.files == RecordedHook::Files::kChanged;
  if (changed && named) {
    start.warnings.push_back(fmt::format(
        "the hook {} differs from the hook of this run's last attempt; continuing with the file as it is now",
        hook.file));
  } else if (changed) {
    start.warnings.push_back(
        fmt::format("the hook {} has changed since this run's last attempt; continuing with the recorded hook (to use "
                    "the file as it is now, set hooks=FILE, or start a new run with `runner fork {}`)",
                    hook.file, start.origin.resume));
  }
  if (!named) start.hook = std::move(hook.sources);
}

bool is_longer(const schema::TrainSpec& before, const schema::TrainSpec& after) {
  return after.epochs > before.epochs || after.steps > before.steps;
}

bool has_other_batches(const schema::Recipe& before, const schema::Recipe& after) {
  return after.data.batch_size != before.data.batch_size ||
         after.gradient_accumulation_steps != before.gradient_accumulation_steps;
}

}  // namespace

store::RunDetails details_of(const std::string& selector, const Options& options, report::Output* out) {
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, selector);
  if (out != nullptr) note_namesakes(store, run, selector, *out);
  return about_run(run, [&] { return store::show_run(store, run); });
}

AttemptStart recorded_start(const store::RunDetails& details) {
  return {.folder = folder_of_recipe(details.recipe), .includes = recorded_includes(details)};
}

Attempt recorded_attempt(const store::RunDetails& details, schema::ReadResult recipe, AttemptStart start) {
  store::RecipeRecord record = record_of_resumed(details.recipe, recipe);
  std::vector<store::Param> params = params_of(with_paths_as_written(details.recipe, recipe));
  return {std::move(recipe), std::move(record), std::move(params), std::move(start)};
}

bool names_hook(const schema::ReadResult& before, const schema::ReadResult& after) {
  const schema::Leaf* hooks = after.find("hooks");
  return before.recipe.hooks != after.recipe.hooks ||
         (hooks != nullptr && hooks->origin == schema::OriginKind::kCommandLine);
}

Attempt attempt_to_resume(const store::RunDetails& details, const fs::path& store,
                          const std::vector<std::string>& overrides) {
  const schema::ReadResult before = recorded_recipe(details, store);
  schema::ReadResult after = recorded_recipe(details, store, overrides);
  std::vector<schema::Diagnostic> refused =
      schema::check_resume_overrides(before, after, /*is_finished=*/details.run.status == store::RunStatus::kDone);
  if (!refused.empty()) throw schema::RecipeError(std::move(refused));
  RUN_CHECK(before.recipe.hooks.empty() == after.recipe.hooks.empty(), ErrorKind::kUsage,
            "cannot {} when resuming a run; use `runner fork {} hooks=…`",
            after.recipe.hooks.empty() ? "remove the hook" : "add a hook", details.run.uid);
  if (!details.states.empty()) nn::read_no_weights(after.recipe.model);  // the weights come from the state
  AttemptStart start = recorded_start(details);
  start.origin = {.resume = details.run.uid,
                  .longer = is_longer(before.recipe.train, after.recipe.train),
                  .other_batches = has_other_batches(before.recipe, after.recipe)};
  resume_with_hook(start, recorded_hook(details, after.recipe), names_hook(before, after));
  return recorded_attempt(details, std::move(after), std::move(start));
}

}  // namespace runner::cli
