// help, version.
#include "runner/cli/commands/commands.h"
#include "runner/cli/help_text.h"
#include "runner/cli/version.h"
#include "schema/json.h"
#include "schema/suggest.h"

namespace runner::cli {

int help(const Options& options, report::Output& out) {
  if (options.topic.empty()) {
    out.data(program_help(out.data_color()));
    return 0;
  }
  const Command* command = find_command(options.topic);
  RUN_CHECK(command != nullptr, ErrorKind::kUsage, "there is no command '{}'; `runner --help` lists all",
            options.topic);
  out.data(command_help(*command, out.data_color()));
  return 0;
}

int version(const Options& options, report::Output& out) {
  out.data(options.json ? json::text(json::Object{{"version", version()}}) : version() + '\n');
  return 0;
}

}  // namespace runner::cli
