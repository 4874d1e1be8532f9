// Commands exec, resume and fork.
#include <chrono>
#include <filesystem>

#include "runner/cli/commands/commands.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/interrupt.h"
#include "runner/cli/rank.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/cli/version.h"
#include "runner/lua/hook_file.h"
#include "runner/optim/recipe_warnings.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/progress.h"
#include "runner/report/provenance.h"
#include "runner/report/run_text.h"
#include "runner/report/summary.h"
#include "runner/report/xla/report_json.h"
#include "runner/train/run/checkpoint/restore.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "schema/recipe/resume_check.h"
#include "store/device_report.h"
#include "store/process.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the recipe at the start of the run, or the current folder if the recipe is no longer there.
std::string folder_of_recipe(const store::RecipeRecord& record) {
  const json::Value origins = json::parse(record.origins_json);
  std::error_code ignored;
  for (const auto& [key, origin] : json::members_of(origins)) {
    if (key != "schema_version") continue;
    for (const auto& [name, value] : json::members_of(origin)) {
      if (name == "file" && value.text() != nullptr && fs::exists(*value.text(), ignored))
        return folder_of(*value.text());
    }
  }
  return "";
}

std::vector<store::AttemptSource> includes_of(const schema::ReadResult& recipe) {
  std::vector<store::AttemptSource> includes;
  for (const auto& [file, text] : recipe.includes) includes.push_back({"include", file, text});
  return includes;
}

// How an attempt starts: a new run, a resumed run, or a fork of another run.
struct AttemptStart {
  std::string folder;                          // folder of the recipe
  std::vector<store::AttemptSource> includes;  // included recipes
  std::vector<train::HookSource> hook = {};    // recorded hook files, used instead of the present ones
  std::vector<std::string> warnings = {};      // warnings about the start
  train::RunOrigin origin = {};
};

// All inputs of an attempt.
struct Attempt {
  schema::ReadResult recipe;
  store::RecipeRecord record;
  std::vector<store::Param> params;
  AttemptStart start;
};

// Informs the Interrupt when the run begins.
class RunReporter : public report::ProgressReporter {
 public:
  RunReporter(report::Output& out, bool quiet, Interrupt& interrupt)
      : ProgressReporter(out, quiet), interrupt_(interrupt) {}

  void on_start(std::string_view run, std::string_view name) override {
    interrupt_.run_has_begun(true);
    ProgressReporter::on_start(run, name);
  }

 private:
  Interrupt& interrupt_;
};

// Calls train::run(), which throws only for errors before the run begins. If a new run is interrupted then, there is no
// state to resume from, so the exit code is 1 instead of 4.
train::RunResult run_to_its_end(const train::RunRequest& request) {
  try {
    return train::run(request);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kInterrupted && request.origin.resume.empty()) error.set_kind(ErrorKind::kRun);
    throw;
  }
}

// Returns whether the command line sets the hook or removes it.
bool names_hook(const schema::ReadResult& before, const schema::ReadResult& after) {
  const schema::Leaf* hooks = after.find("hooks");
  return before.recipe.hooks != after.recipe.hooks ||
         (hooks != nullptr && hooks->origin == schema::OriginKind::kCommandLine);
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

// A forked run is a new experiment: it uses the present hook file if there is one.
void fork_with_hook(AttemptStart& start, RecordedHook hook, std::string_view parent) {
  using Files = RecordedHook::Files;
  if (hook.files == Files::kSame) return;
  const bool is_missing = hook.files == Files::kMissing;
  start.warnings.push_back(
      is_missing
          ? fmt::format("the hook {} does not exist; the child run uses the hook recorded by run {}", hook.file, parent)
          : fmt::format(
                "the hook {} has changed since the last attempt of run {}; the child run uses the file as it is now",
                hook.file, parent));
  if (is_missing) start.hook = std::move(hook.sources);
}

bool is_longer(const schema::TrainSpec& before, const schema::TrainSpec& after) {
  return after.epochs > before.epochs || after.steps > before.steps;
}

// `recipe`: the recipe recorded in `details`, with the changes of the command line.
Attempt attempt_of(const store::RunDetails& details, schema::ReadResult recipe, AttemptStart start) {
  store::RecipeRecord record = record_of_resumed(details.recipe, recipe);
  std::vector<store::Param> params = params_of(with_paths_as_written(details.recipe, recipe));
  return {std::move(recipe), std::move(record), std::move(params), std::move(start)};
}

Attempt attempt_to_resume(const store::RunDetails& details, const std::filesystem::path& store,
                          const std::vector<std::string>& overrides) {
  const schema::ReadResult before = recorded_recipe(details, store);
  schema::ReadResult after = recorded_recipe(details, store, overrides);
  std::vector<schema::Diagnostic> refused = schema::check_resume_overrides(before, after);
  if (!refused.empty()) throw schema::RecipeError(std::move(refused));
  RUN_CHECK(before.recipe.hooks.empty() == after.recipe.hooks.empty(), ErrorKind::kUsage,
            "cannot {} when resuming a run; use `runner fork {} hooks=…`",
            after.recipe.hooks.empty() ? "remove the hook" : "add a hook", details.run.uid);
  AttemptStart start{
      .folder = folder_of_recipe(details.recipe),
      .includes = recorded_includes(details),
      .origin = {.resume = details.run.uid, .longer = is_longer(before.recipe.train, after.recipe.train)}};
  resume_with_hook(start, recorded_hook(details, after.recipe), names_hook(before, after));
  return attempt_of(details, std::move(after), std::move(start));
}

// ---- training -------------------------------------------------------------------------------------------------------

// Adds information about the recipe to errors of `work`, for the JSON document of a run that did not begin.
template <class Work>
auto about_recipe(const schema::ReadResult& recipe, Work work) {
  try {
    return work();
  } catch (Error& error) {
    error.set_run({.id = {},
                   .name = {},
                   .backend = schema::display_text(recipe.find("backend")->value),
                   .num_processes = recipe.recipe.num_processes});
    throw;
  }
}

// This process trains one run, whose durations include the start of the program.
std::chrono::steady_clock::time_point process_start() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> age(store::seconds_since_process_start());
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

train::RunResult train_attempt(Attempt attempt, const Options& options, train::Observer& observer,
                               const std::atomic<int>& stop) {
  const schema::Recipe& recipe = attempt.recipe.recipe;
  const AttemptStart& start = attempt.start;
  std::vector<std::string> warnings = optim::recipe_warnings(attempt.recipe);
  warnings.insert(warnings.end(), start.warnings.begin(), start.warnings.end());
  std::string job = rank_job(recipe, attempt.record.resolved_json, start.hook);
  const train::RunRequest request{
      .recipe = recipe,
      .warnings = std::move(warnings),
      .origin = start.origin,
      .recording = {.store = store_path(options),
                    .recipe = std::move(attempt.record),
                    .params = std::move(attempt.params),
                    .summary = report::run_document,
                    .metrics_document = report::xla::metrics_document,
                    .binary_version = version(),
                    .build_id = build_id(),
                    .provenance = report::provenance_at_start(start.includes),
                    .complete_provenance =
                        [&](store::Provenance& provenance) { report::add_git_state(provenance, start.folder); }},
      .rank_start = {.job = std::move(job), .follow = follower(start.hook)},
      .make_hooks = usable_hooks(attempt.recipe, lua::hooks_maker(start.hook)),
      .observer = observer,
      .started = process_start(),
      .stop = stop};
  return about_recipe(attempt.recipe, [&] { return run_to_its_end(request); });
}

// Adds information about the run to errors of `work`, for the JSON document.
template <class Work>
auto about_run(const store::RunRow& run, Work work) {
  try {
    return work();
  } catch (Error& error) {
    Error::Run about = error.run();
    about.id = run.uid;
    about.name = run.name;
    error.set_run(std::move(about));
    throw;
  }
}

store::RunDetails details_of(const std::string& selector, const Options& options, report::Output* out = nullptr) {
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, selector);
  if (out != nullptr) note_namesakes(store, run, selector, *out);
  return about_run(run, [&] { return store::show_run(store, run); });
}

// Trains, and after the loss of a process resumes the run like `runner resume`, up to max_restarts times.
train::RunResult train_with_restarts(Attempt attempt, const Options& options, train::Observer& observer,
                                     Interrupt& interrupt) {
  const std::atomic<int>& stop = interrupt.count();
  const int64_t restarts = attempt.recipe.recipe.max_restarts;
  const train::ForkRequest* const fork = attempt.start.origin.fork;
  train::RunResult result = train_attempt(std::move(attempt), options, observer, stop);
  std::vector<std::string> lost;
  for (int64_t i = 1; result.lost_process && i <= restarts && stop == 0; ++i) {
    Attempt next = attempt_to_resume(details_of(result.run, options), store_path(options), {});
    next.start.origin.fork = fork;
    next.start.origin.may_begin_again = true;
    lost.push_back(fmt::format("{}; restart {} of {}", result.error->message, i, restarts));
    next.start.warnings.push_back(lost.back());
    interrupt.run_has_begun(false);
    result = train_attempt(std::move(next), options, observer, stop);
  }
  if (lost.size() > 1) result.warnings.insert(result.warnings.begin(), lost.begin(), lost.end() - 1);
  return result;
}

int run_and_report(Attempt attempt, const Options& options, bool quiet, report::Output& out) {
  train::RunResult result;
  {
    Interrupt interrupt(out.live());
    RunReporter observer(out, quiet, interrupt);
    result = train_with_restarts(std::move(attempt), options, observer, interrupt);
  }
  if (result.error) {
    out.talk(report::error_text(result.error->text, out.talk_color()));
  }
  out.data(options.json ? report::run_document(result)
                        : report::summary_text(result, out.data_width(), out.data_color()));
  return result.exit_code;
}

int resume_run(const store::RunDetails& details, const ResumeOptions& options, report::Output& out) {
  Attempt attempt = attempt_to_resume(details, store_path(options), options.overrides);
  if (!options.state.empty()) attempt.start.origin.state = state_named(details, options.state).id;
  if (details.run.status == store::RunStatus::kDone && !attempt.start.origin.longer && options.state.empty()) {
    out.talk(fmt::format(
        "run {} is already finished{}\n", details.run.uid,
        options.overrides.empty() ? std::string() : fmt::format("; ignored {}", fmt::join(options.overrides, " "))));
    store::Store store = open_store(options);
    out.data(options.json ? details.run.summary_json
                          : report::show_text(details, store::newest_device_metrics(store, details.run.id),
                                              out.data_width(), out.data_color()));
    return 0;
  }
  if (options.state.empty() && !options.quiet) note_better_state(details, out);
  return run_and_report(std::move(attempt), options, options.quiet, out);
}

// "digits-2" for a fork of "digits", or "digits-3" for one of "digits-2": the first name that no run has.
std::string name_of_fork(const Options& options, const std::string& parent) {
  store::Store store = open_store(options);
  const auto is_taken = [&](const std::string& name) {
    return store::count_named(store, name, store::Trash::kIncluded) > 0;
  };
  const size_t dash = parent.rfind('-');
  const bool has_number = dash != std::string::npos && dash > 0 && dash + 1 < parent.size() &&
                          parent.find_first_not_of("0123456789", dash + 1) == std::string::npos &&
                          is_taken(parent.substr(0, dash));
  const std::string stem = has_number ? parent.substr(0, dash) : parent;
  for (int64_t number = 2;; ++number)
    if (std::string name = fmt::format("{}-{}", stem, number); !is_taken(name)) return name;
}

// The changes of the command line, with a name for the child if they give none.
std::vector<std::string> with_name(const ForkOptions& options, const std::string& parent) {
  std::vector<std::string> overrides = options.overrides;
  const bool is_named =
      std::ranges::any_of(overrides, [](const std::string& each) { return each.starts_with("name="); });
  if (!is_named) overrides.push_back("name=" + json::compact(name_of_fork(options, parent)));
  return overrides;
}

int fork_run(const store::RunDetails& details, const ForkOptions& options, report::Output& out) {
  train::ForkRequest request{.run = details.run.uid, .restart = options.restart};
  if (!options.state.empty()) request.state = state_named(details, options.state).id;
  if (options.state.empty() && !options.quiet) note_better_state(details, out);
  const schema::ReadResult before = recorded_recipe(details, store_path(options));
  request.before = before.recipe;
  schema::ReadResult after = recorded_recipe(details, store_path(options), with_name(options, details.run.name));
  after.recipe.model.init_from.clear();  // the weights come from the state
  AttemptStart start{
      .folder = folder_of_recipe(details.recipe), .includes = recorded_includes(details), .origin = {.fork = &request}};
  if (!names_hook(before, after)) {
    fork_with_hook(start, recorded_hook(details, request.before), details.run.uid);
  }
  return run_and_report(attempt_of(details, std::move(after), std::move(start)), options, options.quiet, out);
}

}  // namespace

int exec(const ExecOptions& options, report::Output& out) {
  schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  AttemptStart start{.folder = recipe.folder, .includes = includes_of(recipe)};
  store::RecipeRecord record = record_of(recipe);
  std::vector<store::Param> params = params_of(recipe);
  return run_and_report({std::move(recipe), std::move(record), std::move(params), std::move(start)}, options,
                        options.quiet, out);
}

int resume(const ResumeOptions& options, report::Output& out) {
  const store::RunDetails details = details_of(options.run, options, &out);
  return about_run(details.run, [&] {
    return about_missing_files(details, store_path(options), [&] { return resume_run(details, options, out); });
  });
}

int fork(const ForkOptions& options, report::Output& out) {
  const store::RunDetails details = details_of(options.run, options, &out);
  return about_missing_files(details, store_path(options), [&] { return fork_run(details, options, out); });
}

}  // namespace runner::cli
