// The program: parses a command line, runs the command, and turns what it throws into a message and an exit code.
#pragma once

namespace runner::cli {

// The exit code: docs/errors.md.  Never throws.  Call it once, from main.
int run_program(int argc, const char* const* argv);

}  // namespace runner::cli
