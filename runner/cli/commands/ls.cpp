#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"
#include "runner/report/run_text.h"

namespace runner::cli {

int ls(const Options& options, report::Output& out) {
  RUN_CHECK(options.limit != 0, ErrorKind::kUsage, "--limit is 0: at least 1; without it all runs are listed");
  store::Store store = open_store(options);
  const std::vector<store::RunRow> runs = store::list_runs(store, options.limit);
  if (options.json) {
    out.data(report::runs_document(runs));
  } else if (runs.empty()) {
    out.talk("no runs yet; `runner exec RECIPE` makes one\n");
  } else {
    out.data(report::runs_table(runs).render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace runner::cli
