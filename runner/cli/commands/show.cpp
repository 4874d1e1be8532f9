#include "runner/cli/access.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"
#include "runner/report/error_text.h"
#include "runner/report/run_text.h"

namespace runner::cli {

int show(const Options& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunDetails details =
      store::what_is_left(store, store::find_run(store, options.run, store::Trash::kIncluded));
  out.data(options.json ? report::show_document(details)
                        : report::show_text(details, out.data_width(), out.data_color()));
  for (const store::Damage& damage : details.damage) {
    out.talk(
        report::error_text(fmt::format("shown without its {}: {}", damage.part, damage.message), out.talk_color()));
  }
  return details.damage.empty() ? 0 : exit_code(ErrorKind::kStore);
}

}  // namespace runner::cli
