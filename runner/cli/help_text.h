// Help texts, made from the table of commands.  Thread-safe.
#pragma once

#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

// "exec RECIPE [KEY=VALUE ...]".
std::string usage_of(const Command& command);

// What `runner --help` prints: every command with its arguments and summary.
std::string program_help(bool color);
// What `runner COMMAND --help` prints.
std::string command_help(const Command& command, bool color);

}  // namespace runner::cli
