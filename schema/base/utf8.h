// Characters of UTF-8 text (RFC 3629: no overlong forms, no surrogates). Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runner {

// A decoded character. A byte that is not UTF-8 is its own code.
struct Character {
  char32_t code;
  size_t bytes;
  bool is_utf8;
};
Character character_at(std::string_view text, size_t at);

// Calls visit(character, its bytes) for each character.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    visit(character, text.substr(at, character.bytes));
    at += character.bytes;
  }
}

// Returns the number of bytes of the character at text[at], 1 to 4; 0 if the bytes are not UTF-8.
size_t utf8_length(std::string_view text, size_t at);
bool is_utf8(std::string_view text);
// Whether a text begins with the byte order mark of UTF-16.
bool is_utf16(std::string_view text);
// Returns the number of characters in UTF-8 text.
int count_characters(std::string_view text);

// Whether a terminal could obey or hide a character instead of showing it: control characters (C0, DEL, C1), marks that
// change the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), the separators of lines
// and paragraphs (U+2028, U+2029), and characters without width (U+200B to U+200D, U+2060 to U+206F, U+FEFF).
bool is_unsafe(char32_t code);
// The same, or a byte that is not UTF-8.
inline bool is_unsafe(const Character& character) {
  return !character.is_utf8 || is_unsafe(character.code);
}

// Returns \x1b for a character below U+007F, \u202e for others, and \xff for a byte that is not UTF-8.
std::string escape(const Character& character);

}  // namespace runner
