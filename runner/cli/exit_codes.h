// The exit codes of the program, as help, `explain exit N`, the man page and docs/errors.md tell them.  Constant data.
#pragma once

#include <span>
#include <string_view>

namespace runner::cli {

struct ExitCode {
  int code;
  std::string_view meaning;  // in a few words
  std::string_view text;     // what leads to it: the row of docs/errors.md
  std::string_view remedy;
};

std::span<const ExitCode> exit_codes();

}  // namespace runner::cli
