// Quotes words for POSIX shells. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace runner::cli {

// Returns a word that a shell reads as `text`: in single quotes unless the shell takes it as it is.
std::string shell_word(std::string_view text);

}  // namespace runner::cli
