// Help texts generated from the table of commands. Thread-safe.
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

}  // namespace runner::cli
