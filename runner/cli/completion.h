// Shell completion: scripts for the shells, and the candidate words that the scripts request. Made from the
// definitions of the commands.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::cli {

// `shell`: bash, zsh or fish.
std::string completion_script(std::string_view shell);

// Returns the completions of the last of `words`, which are the words after "runner" up to the cursor. Reads runs and
// metrics from the store, and ignores errors of the store. An empty result means that the shell completes file names.
std::vector<std::string> completions(std::span<const std::string> words);

}  // namespace runner::cli
