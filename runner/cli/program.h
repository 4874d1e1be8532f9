// Main function of the program: parses the command line, runs the command, and converts exceptions to messages and exit
// codes.
#pragma once

namespace runner::cli {

// Returns the exit code (docs/errors.md). Never throws. Must be called at most once.
int run_program(int argc, const char* const* argv);

}  // namespace runner::cli
