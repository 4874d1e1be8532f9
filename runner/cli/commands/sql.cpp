#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/value_rows.h"

namespace runner::cli {
namespace {

struct SqlOptions : Options {
  std::string query, format;
};

constexpr Argument kSqlArguments[] = {
    {"QUERY", "", "one SELECT statement; docs/store.md lists the views: runs, params, metrics, points, states, …",
     &SqlOptions::query},
    {"--format", "table|csv|json", "output format of the rows; default: table", &SqlOptions::format}};

int sql(const SqlOptions& options, report::Output& out) {
  const store::SqlResult result = store::sql_query(store_path(options), options.query);
  if (options.json || options.format == "json") {
    out.data(report::sql_document(result));
  } else if (options.format == "csv") {
    out.raw(report::rows_csv(result.columns, result.rows));
  } else {
    out.colored_data(report::rows_table(result.columns, result.rows).render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace

const Command kSqlCommand{
    .name = "sql",
    .group = Group::kStore,
    .summary = "query the store with SQL, read-only",
    .details = "",
    .arguments = kSqlArguments,
    .examples =
        "runner sql \"SELECT run, name, status FROM runs\"\n"
        "runner sql \"SELECT step, value FROM points WHERE metric = 'eval/accuracy'\" --format csv",
    .other_names = "query",
    .has_json = true,
    .action = action<sql>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
