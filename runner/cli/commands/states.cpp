#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/run_text.h"

namespace runner::cli {
namespace {

int states(const RunOptions& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, options.run);
  const std::vector<store::StateInfo> states = store::list_states(store, run.id);
  if (options.json) {
    out.data(report::states_document(states));
  } else if (states.empty()) {
    out.say(fmt::format("run {} has no states", run.uid));
  } else {
    out.colored_data(report::states_table(states).render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace

const Command kStatesCommand{
    .name = "states",
    .group = Group::kStore,
    .summary = "list the states (checkpoints) of a run, newest first",
    .details = "",
    .arguments = kRunArguments,
    .examples = "runner states @last",
    .other_names = "checkpoints",
    .has_json = true,
    .action = action<states>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
