#include "schema/base/utf8.h"

#include <algorithm>

namespace runner {

Character character_at(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const size_t length = utf8_length(text, at);
  if (length <= 1) return {first, 1, length == 1};
  char32_t code = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return {code, length, true};
}

size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (first < 0xC2 || length == 0) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_large = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool is_utf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

int count_characters(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_unsafe(char32_t code) {
  if (code < 0xA0) return code < ' ' || code >= 0x7F;
  if (code < 0x2000) return code == 0x61C;
  return (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF;
}

std::string escape(const Character& character) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const bool is_short = !character.is_utf8 || character.code < 0x7F;
  std::string text = is_short ? "\\x" : "\\u";
  for (int shift = is_short ? 4 : 12; shift >= 0; shift -= 4) text += kDigits[character.code >> shift & 0xFU];
  return text;
}

}  // namespace runner
