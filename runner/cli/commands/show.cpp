#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"
#include "runner/report/run_text.h"

namespace runner::cli {

int show(const Options& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunDetails details =
      store::show_run(store, store::find_run(store, options.run, store::Trash::kIncluded));
  out.data(options.json ? report::show_document(details)
                        : report::show_text(details, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace runner::cli
