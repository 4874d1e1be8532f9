#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/spooling.h"
#include "runner/cli/store_access.h"
#include "runner/cli/training.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/run_text.h"

namespace runner::cli {
namespace {

struct ResumeOptions : StateOptions {
  std::vector<std::string> overrides;
  bool quiet = false;
};

constexpr Argument kResumeArguments[] = {
    kRunArgument,
    {"[KEY=VALUE ...]", "",
     "settings to change: num_processes, backend, log.*, checkpoint.*, a larger train.epochs or train.steps, "
     "data.batch_size with gradient_accumulation_steps",
     &ResumeOptions::overrides, Kind::kSetting},
    kStateArgument,
    kHostsArgument,
    quiet_argument(&ResumeOptions::quiet)};

int resume_run(const store::RunDetails& details, const ResumeOptions& options, report::Output& out) {
  Attempt attempt = attempt_to_resume(details, store_path(options), options.overrides);
  if (!options.state.empty()) attempt.start.origin.state = state_named(details, options.state).id;
  if (details.run.status == store::RunStatus::kDone && !attempt.start.origin.longer && options.state.empty()) {
    return report_finished(details, options.overrides, options, out);
  }
  if (options.state.empty() && !options.quiet) attempt.start.note = better_state_note(details);
  return run_and_report(std::move(attempt), options, options.quiet, out);
}

// Adds to an error of `work` about the settings that most of them need a fork. Faults of keys have such hints.
template <class Work>
auto about_resuming(const store::RunRow& run, Work work) {
  try {
    return work();
  } catch (const schema::RecipeError&) {
    throw;
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kRecipe)
      error.note(fmt::format("a resumed run keeps most settings; `runner fork {} KEY=VALUE` can change any", run.uid));
    throw;
  }
}

int resume(const ResumeOptions& options, report::Output& out) {
  if (const auto code = continue_lost_run(/*fork=*/nullptr, options, options.quiet, out)) return *code;
  ingest_left_spools(options, {.selector = options.run}, out);
  const store::RunDetails details = details_of(options.run, options, &out);
  return about_run(details.run, [&] {
    return about_missing_files(details, store_path(options), options.overrides, [&] {
      return about_resuming(details.run, [&] { return resume_run(details, options, out); });
    });
  });
}

}  // namespace

const Command kResumeCommand{
    .name = "resume",
    .group = Group::kTrain,
    .summary = "continue a run from its newest state (checkpoint)",
    .details =
        "Continues the same run, with its recorded recipe and hook.  If files were moved, settings can name the\n"
        "new path, relative to the current folder: data.train.path and similar, model.init_from, hooks.  For a\n"
        "run that is already finished, the result is printed again.",
    .arguments = kResumeArguments,
    .examples =
        "runner resume @last\n"
        "runner resume digits train.epochs=40",
    .other_names = "continue restart",
    .has_json = true,
    .trains_in_all_processes = true,
    .action = action<resume>,
    .failure_document = report::failed_run_document,
};

}  // namespace runner::cli
