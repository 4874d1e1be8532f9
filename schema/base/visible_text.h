// Texts of others, such as what a hook prints, as a terminal may show them.  Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace runner::schema {

// The text with its control characters, but tabs and newlines, written as \x1b or \u009b, and bytes that are no UTF-8
// as \xff: none of them reaches the terminal, where they would move the cursor or worse.
std::string visible(std::string_view text);

}  // namespace runner::schema
