#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/formats/csv.h"
#include "runner/report/documents.h"
#include "runner/report/sql_text.h"

namespace runner::cli {

int sql(const Options& options, report::Output& out) {
  const store::SqlResult result = store::sql_query(store_path(options), options.query);
  if (options.json || options.format == "json") {
    out.data(report::sql_document(result));
  } else if (options.format == "csv") {
    out.data(report::sql_csv(result));
  } else {
    out.data(report::sql_table(result).render(out.data_width(), out.data_color()));
  }
  return 0;
}

}  // namespace runner::cli
