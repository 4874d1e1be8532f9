// Manual pages with troff's man macros, generated from the table of commands. Thread-safe.
#pragma once

#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

// runner(1): all commands with their arguments and examples.
std::string program_man_page();
// runner-COMMAND(1).
std::string command_man_page(const Command& command);

}  // namespace runner::cli
