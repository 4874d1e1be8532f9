#include "runner/cli/exit_codes.h"

#include <cstring>
#include <string>

namespace runner::cli {
namespace {

constexpr ExitCode kExitCodes[] = {
    {0, "done", "done", "–"},
    {1, "the run failed",
     "a recorded run failed: the loss was not finite, memory ran out, a hook failed; or the output could not be "
     "written; or `verify-resume` found a difference",
     "read the message; `runner show RUN` prints the run's events, `runner resume RUN` continues from its newest "
     "state"},
    {2, "usage or invalid recipe",
     "wrong command line, or a recipe, hook or data file that cannot be used; nothing was recorded",
     "correct what the message says; all errors of a recipe are listed at once"},
    {3, "no such run or state", "no such run, state or metric",
     "the message suggests similar names; `runner ls`, `runner states RUN`, `runner metrics RUN` list all"},
    {4, "interrupted and resumable", "interrupted, state saved", "`runner resume RUN`"},
    {5, "the store cannot be used",
     "the store cannot be used: missing, damaged, newer than this program, a file of another program, read-only, disk "
     "full",
     "the message says which; committed data is intact"},
};

}  // namespace

std::span<const ExitCode> exit_codes() {
  return kExitCodes;
}

std::optional<ExitCode> find_exit_code(std::string_view code) {
  for (const ExitCode& row : kExitCodes)
    if (std::to_string(row.code) == code) return row;
  constexpr int kLast = 64;
  for (int signal = 1; signal <= kLast; ++signal)
    if (std::to_string(kSignalCode + signal) == code)
      return ExitCode{kSignalCode + signal, "ended by a signal", strsignal(signal),
                      "`runner ls` shows its run as crashed, `runner resume RUN` continues from its newest state"};
  return std::nullopt;
}

}  // namespace runner::cli
