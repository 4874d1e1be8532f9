// Runs shell commands with the binary under test as `runner`, in a folder of their own.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace runner::cli::testing {

struct Result {
  int exit_code = 0;  // 128 + signal for a killed shell
  std::string out, err;
};

// `command` runs by sh in `folder`, which is HOME too, without RUNNER_DB, NO_COLOR and TERM, and with time zone UTC.
Result run_command(const std::string& command, const std::filesystem::path& folder);

// The same for a command that is interrupted (SIGINT) as soon as a line of its progress shows; both streams are in
// `out`.
Result run_until_progress(const std::string& command, const std::filesystem::path& folder);

using Folder = support::TempFolder;
using support::read_text;
using support::write_text;

}  // namespace runner::cli::testing
