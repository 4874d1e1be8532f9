// Completion of command lines: the scripts that shells load, and the words that they ask for.  Made from the table of
// commands.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/command.h"

namespace runner::cli {

// For bash, zsh or fish.
std::string completion_script(std::string_view shell);

// What the last of `words` may become: those after "runner" up to the cursor.  Looks into the store for runs and
// metrics; never throws for what is wrong with it.  Empty: files, or nothing.
std::vector<std::string> completions(std::span<const std::string> words);

}  // namespace runner::cli
