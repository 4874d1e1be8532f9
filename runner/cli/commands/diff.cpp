#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/comparison.h"

namespace runner::cli {

int diff(const Options& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunDetails a = store::show_run(store, store::find_run(store, options.run));
  const store::RunDetails b = store::show_run(store, store::find_run(store, options.other_run));
  const report::Comparison comparison = report::compare(a, b);
  out.data(options.json ? report::comparison_document(comparison)
                        : report::comparison_text(comparison, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace runner::cli
