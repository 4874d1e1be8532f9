#include "tests/cli/command.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>

namespace runner::cli::testing {
namespace fs = std::filesystem;

Result run_command(const std::string& command, const fs::path& folder) {
  const Folder captured;
  const fs::path out = captured.path() / "out", err = captured.path() / "err", script = captured.path() / "script";
  write_text(script, command);
  const std::string line = fmt::format(
      "cd '{}' && unset RUNNER_DB NO_COLOR TERM && TZ=UTC PATH='{}':$PATH sh '{}' >'{}' 2>'{}' </dev/null",
      folder.string(), fs::path(RUNNER_BINARY).parent_path().string(), script.string(), out.string(), err.string());
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "runner_cli_XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace runner::cli::testing
