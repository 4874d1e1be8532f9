#include <algorithm>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/spooling.h"
#include "runner/cli/store_access.h"
#include "runner/cli/training.h"
#include "runner/model/initial_weights.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/train/run/checkpoint/restore.h"
#include "schema/base/json.h"
#include "schema/recipe/substitute.h"

namespace runner::cli {
namespace {

struct ForkOptions : StateOptions {
  std::vector<std::string> overrides;
  bool restart = false;
  bool quiet = false;
};

constexpr Argument kForkArguments[] = {
    kRunArgument,
    {"[KEY=VALUE ...]", "", "settings to change in the child run: any except the shapes of the model",
     &ForkOptions::overrides, Kind::kSetting},
    kStateArgument,
    {"--restart", "", "load only the weights and start from the first epoch", &ForkOptions::restart},
    kHostsArgument,
    quiet_argument(&ForkOptions::quiet)};

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
  if (!is_named) overrides.push_back("name=" + json::compact(schema::escape_references(name_of_fork(options, parent))));
  return overrides;
}

int fork_run(const store::RunDetails& details, const ForkOptions& options, report::Output& out) {
  train::ForkRequest request{.run = details.run.uid, .restart = options.restart};
  if (!options.state.empty()) request.state = state_named(details, options.state).id;
  schema::ReadResult after = recorded_recipe(details, store_path(options), with_name(options, details.run.name));
  // A secret of the parent may have another value now if the child does not use it.
  const schema::ReadResult before =
      recorded_recipe(details, store_path(options), overrides_of_secrets(details.recipe, options.overrides));
  request.before = before.recipe;
  if (const auto code = continue_lost_run(&request, options, options.quiet, out)) return *code;
  nn::read_no_weights(after.recipe.model);  // the weights come from the state
  AttemptStart start = recorded_start(details);
  start.origin.fork = &request;
  if (options.state.empty() && !options.quiet) start.note = better_state_note(details);
  if (!names_hook(before, after)) {
    fork_with_hook(start, recorded_hook(details, request.before), details.run.uid);
  }
  return run_and_report(recorded_attempt(details, std::move(after), std::move(start)), options, options.quiet, out);
}

int fork(const ForkOptions& options, report::Output& out) {
  ingest_left_spools(options, {.selector = options.run, .may_be_running = true}, out);
  const store::RunDetails details = details_of(options.run, options, &out);
  return about_missing_files(details, store_path(options), options.overrides,
                             [&] { return fork_run(details, options, out); });
}

}  // namespace

const Command kForkCommand{
    .name = "fork",
    .group = Group::kTrain,
    .summary = "start a new run from a state (checkpoint) of another run",
    .details =
        "The new run, the child, loads everything that fits its recipe; a warning lists what starts from\n"
        "scratch.  Paths in settings are relative to the current folder.",
    .arguments = kForkArguments,
    .examples =
        "runner fork @last train.epochs=60 optimizer.lr=1e-4\n"
        "runner fork digits train.epochs=80 optimizer.type=sgd optimizer.lr=0.1\n"
        "runner fork digits --restart 'model.freeze=[0.*]' name=transfer",
    .other_names = "branch",
    .has_json = true,
    .trains_in_all_processes = true,
    .action = action<fork>,
    .failure_document = report::failed_run_document,
};

}  // namespace runner::cli
