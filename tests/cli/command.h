// Runs shell commands in a folder of their own, with the binary under test as `runner`.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace runner::cli::testing {

struct Result {
  int exit_code = 0;  // 128 + signal number if a signal ended the shell
  std::string out, err;
};

// Runs `command` with sh in `folder`, which is also HOME. NO_COLOR, TERM and all RUNNER_ variables are unset, and the
// time zone is UTC.
Result run_command(const std::string& command, const std::filesystem::path& folder);

// Like run_command(), but interrupts the command (SIGINT) as soon as it prints a progress line. Both streams are in
// `out`.
Result run_until_progress(const std::string& command, const std::filesystem::path& folder);

using Folder = support::TempFolder;
using support::read_text;
using support::write_text;

}  // namespace runner::cli::testing
