// Help texts and manual pages, made from the definitions of the commands. Thread-safe.
#pragma once

#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

// "exec RECIPE [KEY=VALUE ...]".
std::string usage_of(const Command& command);

// Output of `runner --help`: all commands with their arguments and summaries.
std::string program_help(bool color);
// Output of `runner COMMAND --help`.
std::string command_help(const Command& command, bool color);

// ---- manual pages with troff's man macros ---------------------------------------------------------------------------

// runner(1): all commands with their arguments and examples.
std::string program_man_page();
// runner-COMMAND(1).
std::string command_man_page(const Command& command);

}  // namespace runner::cli
