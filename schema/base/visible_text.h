// Makes untrusted text, such as the output of a hook, safe for a terminal. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace runner::schema {

// Escapes control characters other than tabs and newlines as \x1b or \u009b, and bytes that are not UTF-8 as \xff, so
// that they cannot control the terminal.
std::string visible(std::string_view text);

}  // namespace runner::schema
