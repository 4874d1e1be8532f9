// exec, resume, fork.
#include <filesystem>

#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/cli/interrupt.h"
#include "runner/cli/recipe_record.h"
#include "runner/cli/version.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/error_text.h"
#include "runner/report/progress.h"
#include "runner/report/provenance.h"
#include "runner/report/run_text.h"
#include "runner/report/summary.h"
#include "runner/train/forking.h"
#include "schema/compose.h"
#include "schema/json.h"
#include "schema/recipe_warnings.h"
#include "schema/resume_check.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// Where the recipe was when the run began; the current folder if it is not there any more.
std::string folder_of_recipe(const store::RecipeRecord& record) {
  const json::Value origins = json::parse(record.origins_json);
  for (const auto& [key, origin] : json::members_of(origins)) {
    if (key != "schema_version") continue;
    for (const auto& [name, value] : json::members_of(origin)) {
      if (name == "file" && value.text() != nullptr && fs::exists(*value.text()))
        return schema::folder_of(*value.text());
    }
  }
  return "";
}

std::vector<store::SourceText> sources_of(const schema::ReadResult& recipe) {
  std::vector<store::SourceText> sources;
  for (const auto& [file, text] : recipe.includes) sources.push_back({"include", file, text});
  return sources;
}

// Where a run begins: at nothing, at its own newest state, at a state of another run.
struct Beginning {
  std::string folder;  // of the recipe
  std::string resume = {};
  bool longer = false;
  const train::ForkRequest* fork = nullptr;
};

int run_and_report(const schema::ReadResult& recipe, store::RecipeRecord record, std::vector<store::Param> params,
                   const Beginning& beginning, const Options& options, report::Output& out) {
  train::RunResult result;
  {
    report::ProgressReporter observer(out, options.quiet);
    const Interrupt interrupt(out.live());
    result =
        train::run({.recipe = recipe.recipe,
                    .record = std::move(record),
                    .params = std::move(params),
                    .warnings = schema::recipe_warnings(recipe),
                    .store = store_path(options),
                    .resume = beginning.resume,
                    .fork = beginning.fork,
                    .longer = beginning.longer,
                    .make_hooks = lua::load_hooks,
                    .observer = observer,
                    .summary = report::run_document,
                    .stop = interrupt.count(),
                    .binary_version = version(),
                    .provenance = [&] { return report::collect_provenance(beginning.folder, sources_of(recipe)); }});
  }
  if (result.error) {
    out.talk(report::error_text(result.error->text, out.talk_color()));
  }
  out.data(options.json ? report::run_document(result)
                        : report::summary_text(result, out.data_width(), out.data_color()));
  return result.exit_code;
}

bool is_longer(const schema::TrainSpec& before, const schema::TrainSpec& after) {
  return after.epochs > before.epochs || after.steps > before.steps;
}

int resume_run(const store::RunDetails& details, const Options& options, report::Output& out) {
  const schema::ReadResult before = schema::read_resolved(details.recipe.resolved_json);
  const schema::ReadResult after = schema::read_resolved(details.recipe.resolved_json, options.overrides);
  std::vector<schema::Diagnostic> refused = schema::check_resume_overrides(before, after);
  if (!refused.empty()) throw schema::RecipeError(std::move(refused));
  const bool longer = is_longer(before.recipe.train, after.recipe.train);
  if (details.run.status == store::RunStatus::kDone && !longer) {
    out.talk(fmt::format("run {} is finished already{}\n", details.run.uid,
                         options.overrides.empty()
                             ? std::string()
                             : fmt::format("; nothing was done with {}", fmt::join(options.overrides, " "))));
    out.data(options.json ? details.run.summary_json : report::show_text(details, out.data_width(), out.data_color()));
    return 0;
  }
  return run_and_report(
      after, record_of_resumed(details.recipe, after), params_of(with_paths_as_written(details.recipe, after)),
      {.folder = folder_of_recipe(details.recipe), .resume = details.run.uid, .longer = longer}, options, out);
}

int fork_run(const store::RunDetails& details, const Options& options, report::Output& out) {
  train::ForkRequest request{.run = details.run.uid, .restart = options.restart};
  if (options.state != Options::kNotGiven) request.state = options.state;
  request.before = schema::read_resolved(details.recipe.resolved_json).recipe;
  schema::ReadResult after = schema::read_resolved(details.recipe.resolved_json, options.overrides);
  after.recipe.model.init_from.clear();  // the state has the weights
  return run_and_report(after, record_of_resumed(details.recipe, after),
                        params_of(with_paths_as_written(details.recipe, after)),
                        {.folder = folder_of_recipe(details.recipe), .fork = &request}, options, out);
}

// `run` is set as soon as it is found.
store::RunDetails details_of(const Options& options, store::RunRow& run) {
  store::Store store = open_store(options);
  run = store::find_run(store, options.run);
  return store::show_run(store, run);
}

}  // namespace

int exec(const Options& options, report::Output& out) {
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  return run_and_report(recipe, record_of(recipe), params_of(recipe), {.folder = recipe.folder}, options, out);
}

int resume(const Options& options, report::Output& out) {
  store::RunRow run;
  try {
    return resume_run(details_of(options, run), options, out);
  } catch (Error& error) {
    error.set_run({run.uid, run.name});
    throw;
  }
}

int fork(const Options& options, report::Output& out) {
  store::RunRow parent;
  return fork_run(details_of(options, parent), options, out);
}

}  // namespace runner::cli
