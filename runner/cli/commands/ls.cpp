#include <algorithm>

#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/run_text.h"

namespace runner::cli {
namespace {

struct LsOptions : Options {
  std::string where, sort, columns;
  int64_t limit = kNotGiven;  // default: no limit
  bool trash = false;
};

constexpr Argument kLsArguments[] = {
    {"--where", "CONDITION", "list only runs that match, such as 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'",
     &LsOptions::where},
    {"--sort", "KEY,...", "sort order, such as best(eval/accuracy) or 'optimizer.lr desc'; default: newest first",
     &LsOptions::sort, Kind::kRunFields},
    {"--columns", "NAME,...", "columns, parameters and metrics to show instead of the default columns",
     &LsOptions::columns, Kind::kRunFields},
    {.name = "--limit",
     .value = "N",
     .text = "list only the first N runs; default: all",
     .target = &LsOptions::limit,
     .at_least = 1},
    {"--trash", "", "list the runs in the trash instead", &LsOptions::trash}};

int ls(const LsOptions& options, report::Output& out) {
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
                                    : with_store_option("no runs yet; `runner exec RECIPE` records one\n", options));
  } else {
    const report::Table table =
        has_default_columns ? report::runs_table(selection) : report::selection_table(selection);
    out.colored_data(table.render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace

const Command kLsCommand{
    .name = "ls",
    .group = Group::kStore,
    .summary = "list the runs, newest first",
    .details = "--where, --sort and --columns accept columns, parameters and metrics: docs/cli.md.",
    .arguments = kLsArguments,
    .examples =
        "runner ls\n"
        "runner ls --where 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'\n"
        "runner ls --sort 'best(eval/loss)' --columns 'name,best(eval/loss),optimizer.lr' --limit 10",
    .other_names = "list runs",
    .has_json = true,
    .action = action<ls>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
