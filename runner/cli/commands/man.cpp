#include "runner/cli/commands/shared_options.h"
#include "runner/cli/help.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

int man(const TopicOptions& options, report::Output& out) {
  out.data(options.command.empty() ? program_man_page() : command_man_page(known_command(options.command)));
  return 0;
}

}  // namespace

const Command kManCommand{
    .name = "man",
    .group = Group::kSystem,
    .summary = "print a manual page",
    .details = "make install installs the pages in share/man.",
    .arguments = kTopicArguments,
    .examples =
        "runner man > runner.1\n"
        "runner man exec > runner-exec.1",
    .has_json = false,
    .action = action<man>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
