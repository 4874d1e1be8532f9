// The exit codes of the program, as help, `explain exit N`, the man page and docs/errors.md tell them.  Constant data.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace runner::cli {

struct ExitCode {
  int code;
  std::string_view meaning;  // in a few words
  std::string_view text;     // what leads to it: the row of docs/errors.md
  std::string_view remedy;
};

inline constexpr int kSignalCode = 128;  // and the number of the signal: what a shell says of a process it has ended

std::span<const ExitCode> exit_codes();

// That row, or 128 + N where signal N ended the process, of which the text is the signal's name; none: no such code.
std::optional<ExitCode> find_exit_code(std::string_view code);

}  // namespace runner::cli
