#include "runner/cli/help.h"

#include "runner/cli/commands/shared_options.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

int help(const TopicOptions& options, report::Output& out) {
  out.colored_data(options.command.empty() ? program_help(out.data_color())
                                           : command_help(known_command(options.command), out.data_color()));
  return 0;
}

}  // namespace

const Command kHelpCommand{
    .name = "help",
    .group = Group::kSystem,
    .summary = "show the help of a command",
    .details = "",
    .arguments = kTopicArguments,
    .examples =
        "runner help exec\n"
        "runner exec --help",
    .has_json = false,
    .action = action<help>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
