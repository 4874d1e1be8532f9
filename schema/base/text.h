// Text functions used by all folders. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace runner {

// Converts ASCII letters to lower case, independently of the locale.
std::string lower_case(std::string_view text);

// Removes spaces and tabs at both ends.
std::string_view trim(std::string_view text);

// Whether a byte is an ASCII letter, a digit or an underscore, independently of the locale.
bool is_word_byte(char c);

// Returns the number that is the whole text, such as "12" or "-3"; none if it is something else or too large.
std::optional<int> whole_number(std::string_view text);

// Returns `text` with each `old`, which is not empty, replaced.
std::string replaced(std::string_view text, std::string_view old, std::string_view replacement);

// "1 step", "2 steps", "3 classes", "4 batches".
std::string count_text(int64_t count, std::string_view noun);

// Makes untrusted text, such as the output of a hook, safe for a terminal. Escapes unsafe characters (utf8.h) other
// than tabs and newlines as \x1b below U+007F or else as \u202e, and bytes that are not UTF-8 as \xff. In a JSON
// document, where strings have escaped C0, it returns a document of the same value.
std::string visible(std::string_view text);

// The same for an error or a warning, of which all lines but the first are indented. No text of others can then look
// like another message.
std::string visible_message(std::string_view text);

// Quotes `text` for a message: truncated after 40 bytes, with unsafe characters escaped as by visible(), tabs and
// newlines too, and every byte beyond ASCII as \xff if the text is not UTF-8.
std::string in_quotes(std::string_view text);

// Returns whether a shell-style pattern matches the whole text. `any` matches any number of characters, `one` matches
// exactly one. A character of UTF-8 counts as one, a byte that is not UTF-8 too.
bool matches(std::string_view pattern, std::string_view text, char any = '*', char one = '?');
// Whether one of the patterns does.
bool any_matches(std::span<const std::string> patterns, std::string_view text);

// Returns `text`, in which the n-th * is replaced by what the n-th * of `pattern` matches, or nullopt if the pattern
// does not match the whole name. Patterns are those of matches(). A * before others matches as little as possible.
std::optional<std::string> matched_text(std::string_view pattern, std::string_view name, std::string_view text);

// Returns the folder of a path, "" if it has none.
std::string folder_of(const std::string& path);
// Makes a path relative to `folder` relative to the current folder.
std::string join_path(const std::string& folder, const std::string& path);
// The inverse of join_path(); returns an absolute path if the names do not determine a relative one.
std::string relative_path(const std::string& folder, const std::string& path);

}  // namespace runner
