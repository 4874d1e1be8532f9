#include <algorithm>

#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "store/queries.h"
#include "store/removal.h"
#include "store/run_selection.h"

namespace runner::cli {
namespace {

struct RmOptions : Options {
  std::vector<std::string> runs;
  std::string where;
  bool purge = false;
};

constexpr Argument kRmArguments[] = {
    {"[RUN ...]", "", "runs; * and ? match parts of names and ids", &RmOptions::runs, Kind::kRun},
    {"--where", "CONDITION", "remove the runs that match, as `runner ls --where` lists them", &RmOptions::where},
    {"--purge", "", "delete permanently, also runs that are in the trash; this cannot be undone", &RmOptions::purge}};

// The runs that `rm` names: by selectors, or by a condition.
std::vector<store::RunRow> runs_to_remove(store::Store& store, const RmOptions& options) {
  RUN_CHECK(options.runs.empty() != options.where.empty(), ErrorKind::kUsage,
            "rm: expected runs or --where CONDITION, {}", options.runs.empty() ? "got neither" : "got both");
  if (options.where.empty())
    return find_all(store, options.runs, options.purge ? store::Trash::kIncluded : store::Trash::kHidden);
  std::vector<store::RunRow> runs = store::select_runs(store, {.where = options.where}).runs;
  RUN_CHECK(!runs.empty(), ErrorKind::kNotFound, "no run matches {}", options.where);
  return runs;
}

int rm(const RmOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  auto runs = runs_to_remove(store, options);
  // Newest first, so that a fork is removed before its parent, on which it depends.
  if (options.purge) std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.id > b.id; });
  for (const store::RunRow& run : runs) {
    options.purge ? store::remove_run(store, run.id) : store::trash_run(store, run.id);
    out.say(options.purge
                ? fmt::format("removed run {} ({})", run.uid, run.name)
                : with_store_option(fmt::format("run {} ({}) is in the trash; `runner restore {}` restores it", run.uid,
                                                run.name, run.uid),
                                    options));
  }
  if (options.json)
    out.data(json::text(
        json::Object{{"removed", json::list_of(runs, [](const store::RunRow& run) { return json::Value(run.uid); })},
                     {"purged", options.purge}}));
  return 0;
}

}  // namespace

const Command kRmCommand{
    .name = "rm",
    .group = Group::kStore,
    .summary = "move runs to the trash",
    .details =
        "ls does not list runs in the trash, and no name finds them.  `runner restore` takes a run out of it,\n"
        "and gc deletes runs that have been in it for 30 days.",
    .arguments = kRmArguments,
    .examples =
        "runner rm 'digits*' wine\n"
        "runner rm @last --purge",
    .other_names = "delete remove",
    .has_json = true,
    .action = action<rm>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
