#include "tests/cli/command.h"

#include <array>
#include <string_view>

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/paths.h"

namespace runner::cli::testing {
namespace fs = std::filesystem;

namespace {

// Returns the names of the variables that runs would record and that only tests read, as RUNNER_UPDATE.
std::string variables_of_tests() {
  std::string names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("RUNNER_")) names += fmt::format(" {}", text.substr(0, text.find('=')));
  }
  return names;
}

// Returns the part before a command that sets its folder and environment.
std::string surroundings(const fs::path& folder) {
  return fmt::format("cd '{}' && unset NO_COLOR TERM{} && export TZ=UTC HOME='{}' PATH='{}':$PATH", folder.string(),
                     variables_of_tests(), folder.string(), support::build_path("bin"));
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result run_command(const std::string& command, const fs::path& folder) {
  const Folder captured;
  const fs::path out = captured.path() / "out", err = captured.path() / "err", script = captured.path() / "script";
  write_text(script, command);
  const std::string line = fmt::format("{} && sh '{}' >'{}' 2>'{}' </dev/null", surroundings(folder), script.string(),
                                       out.string(), err.string());
  return {exit_code_of(std::system(line.c_str())), read_text(out), read_text(err)};
}

Result run_until_progress(const std::string& command, const fs::path& folder) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
  const std::string line = surroundings(folder) + " && exec " + command;
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);  // a background job, as the tests may be, ignores it
    for (const int stream : {1, 2}) ::dup2(pipe[1], stream);
    for (const int end : pipe) ::close(end);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  Result result;
  std::array<char, 4096> buffer{};
  bool pressed = false;
  for (ssize_t n = 0; (n = ::read(pipe[0], buffer.data(), buffer.size())) > 0;) {
    result.out.append(buffer.data(), static_cast<size_t>(n));
    if (pressed || result.out.find("\nstep ") == std::string::npos) continue;
    ::kill(child, SIGINT);
    pressed = true;
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = exit_code_of(status);
  return result;
}

}  // namespace runner::cli::testing
