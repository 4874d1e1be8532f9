#include "runner/cli/commands/commands.h"
#include "runner/cli/store_access.h"
#include "runner/cli/version.h"
#include "runner/report/environment.h"

namespace runner::cli {

int doctor(const Options& options, report::Output& out) {
  const report::Environment found = report::inspect_environment(store_path(options), version());
  out.data(options.json ? report::environment_document(found) : report::environment_text(found, out.data_color()));
  return 0;
}

}  // namespace runner::cli
