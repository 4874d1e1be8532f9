// Manual pages in troff's man macros, made from the table of commands.  Thread-safe.
#pragma once

#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

// runner(1): every command with its arguments and examples.
std::string program_man_page();
// runner-COMMAND(1).
std::string command_man_page(const Command& command);

}  // namespace runner::cli
