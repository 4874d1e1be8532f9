#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "store/queries.h"
#include "store/removal.h"

namespace runner::cli {
namespace {

struct RestoreOptions : Options {
  std::vector<std::string> runs;
};

constexpr Argument kRestoreArguments[] = {{"RUN ...", "",
                                           "runs in the trash, also with * and ?; `runner ls --trash` lists them",
                                           &RestoreOptions::runs, Kind::kTrashedRun}};

int restore(const RestoreOptions& options, report::Output& out) {
  store::Store store = open_store(options, store::Access::kEdit);
  const auto runs = find_all(store, options.runs, store::Trash::kOnly);
  for (const store::RunRow& run : runs) {
    store::restore_run(store, run.id);
    out.say(fmt::format("restored run {} ({})", run.uid, run.name));
  }
  if (options.json)
    out.data(json::text(json::Object{
        {"restored", json::list_of(runs, [](const store::RunRow& run) { return json::Value(run.uid); })}}));
  return 0;
}

}  // namespace

const Command kRestoreCommand{
    .name = "restore",
    .group = Group::kStore,
    .summary = "restore runs from the trash",
    .details = "`runner show` prints when a run was moved to the trash.",
    .arguments = kRestoreArguments,
    .examples = "runner restore wine",
    .has_json = true,
    .action = action<restore>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
