// Exit codes of the program, as shown by the help, `explain exit N`, the manual page and docs/errors.md. Constant data.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace runner::cli {

struct ExitCode {
  int code;
  std::string_view meaning;  // in a few words
  std::string_view text;     // causes, as in docs/errors.md
  std::string_view remedy;
};

inline constexpr int kSignalCode = 128;  // plus the number of the signal, as shells report a process ended by a signal

std::span<const ExitCode> exit_codes();

// Returns the row of a code. For 128 + N, returns a row whose text is the name of signal N. Returns nullopt for other
// codes.
std::optional<ExitCode> find_exit_code(std::string_view code);

}  // namespace runner::cli
