#include "runner/cli/commands/commands.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/value_rows.h"

namespace runner::cli {

int sql(const SqlOptions& options, report::Output& out) {
  const store::SqlResult result = store::sql_query(store_path(options), options.query);
  if (options.json || options.format == "json") {
    out.data(report::sql_document(result));
  } else if (options.format == "csv") {
    out.data(report::rows_csv(result.columns, result.rows));
  } else {
    out.data(report::rows_table(result.columns, result.rows).render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace runner::cli
