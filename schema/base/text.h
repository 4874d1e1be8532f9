// Text functions used by all folders. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

// Converts ASCII letters to lower case, independently of the locale.
std::string lower_case(std::string_view text);

// Removes spaces and tabs at both ends.
std::string_view trim(std::string_view text);

// Whether a byte is an ASCII letter, a digit or an underscore, independently of the locale.
bool is_word_byte(char c);

// Whether a key is `section` or lies in it: a, a.b and a[0] are within a.
bool is_within(std::string_view key, std::string_view section);

// "1 step", "2 steps", "3 classes", "4 batches".
std::string count_text(int64_t count, std::string_view noun);

// Makes untrusted text, such as the output of a hook, safe for a terminal. Escapes control characters other than tabs
// and newlines as \x1b or \u009b, and bytes that are not UTF-8 as \xff.
std::string visible(std::string_view text);

// Quotes `text` for a message: truncated after 40 bytes, with control characters as \xNN, and every byte beyond ASCII
// if the text is not UTF-8.
std::string in_quotes(std::string_view text);

// Returns whether a shell-style pattern matches the whole text. `any` matches any number of characters, `one` matches
// exactly one. A character of UTF-8 counts as one, a byte that is not UTF-8 too.
bool matches(std::string_view pattern, std::string_view text, char any = '*', char one = '?');

// Returns the folder of a path, "" if it has none.
std::string folder_of(const std::string& path);
// Makes a path relative to `folder` relative to the current folder.
std::string join_path(const std::string& folder, const std::string& path);
// The inverse of join_path(); returns an absolute path if the names do not determine a relative one.
std::string relative_path(const std::string& folder, const std::string& path);

}  // namespace runner
