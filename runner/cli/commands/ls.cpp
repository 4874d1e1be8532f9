#include <algorithm>

#include "runner/cli/commands/commands.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/run_text.h"

namespace runner::cli {

int ls(const LsOptions& options, report::Output& out) {
  RUN_CHECK(options.limit != 0, ErrorKind::kUsage, "--limit: expected at least 1, got 0; omit it to list all runs");
  store::Store store = open_store(options);
  const bool has_default_columns = options.columns.empty() && !options.json;
  const store::RunSelection selection =
      store::select_runs(store, {.where = options.where,
                                 .sort = options.sort,
                                 .columns = has_default_columns ? report::kMainMetrics : options.columns,
                                 .limit = std::max<int64_t>(options.limit, 0),
                                 .trash = options.trash,
                                 .dropped_points = options.json});
  if (options.json) {
    out.data(report::runs_document(selection));
  } else if (selection.runs.empty()) {
    out.talk(!options.where.empty() ? "no run matches\n"
             : options.trash        ? "the trash is empty\n"
                                    : "no runs yet; `runner exec RECIPE` records one\n");
  } else {
    const report::Table table =
        has_default_columns ? report::runs_table(selection) : report::selection_table(selection);
    out.data(table.render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace runner::cli
