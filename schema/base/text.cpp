#include "schema/base/text.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "schema/base/utf8.h"

namespace runner {
std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view replacement) {
  std::string result;
  for (size_t at = text.find(old); at != std::string_view::npos; at = text.find(old)) {
    result.append(text.substr(0, at)).append(replacement);
    text.remove_prefix(at + old.size());
  }
  return result.append(text);
}

std::string count_text(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun,
                     count == 1                                     ? ""
                     : noun.ends_with("s") || noun.ends_with("tch") ? "es"
                                                                    : "s");
}

std::string visible(std::string_view text) {
  const auto is_plain = [](char32_t c) { return (c >= ' ' && c < 0x7f) || c == '\t' || c == '\n'; };
  if (std::ranges::all_of(text, [&](char c) { return is_plain(static_cast<unsigned char>(c)); }))
    return std::string(text);
  std::string shown;
  for_each_character(text, [&](const Character& character, std::string_view bytes) {
    !is_plain(character.code) && is_unsafe(character) ? shown += escape(character) : shown += bytes;
  });
  return shown;
}

std::string visible_message(std::string_view text) {
  std::string lines;
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    lines.append(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
    if (!text.empty() && text.front() != '\n' && !text.starts_with("  ")) lines += "  ";
  }
  return visible(lines.append(text));
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 40;
  const bool all_is_utf8 = is_utf8(text);
  std::string_view start = text.substr(0, kShown);
  const auto continues = [&] {
    return all_is_utf8 && start.size() < text.size() && (text[start.size()] & 0xC0) == 0x80;
  };
  while (continues()) start.remove_suffix(1);
  std::string result = "'";
  for_each_character(start, [&](const Character& character, std::string_view bytes) {
    if (character.code >= 0x80 && !all_is_utf8) {
      for (const char byte : bytes) result += escape({static_cast<unsigned char>(byte), 1, false});
    } else {
      is_unsafe(character) ? result += escape(character) : result += bytes;
    }
  });
  return result + (text.size() > kShown ? "...'" : "'");
}

namespace {

// matches(). Adds what each `any` of the pattern matches to `parts` unless it is null. After a mismatch, the last `any`
// takes one more character.
bool match_parts(std::string_view pattern, std::string_view text, char any, char one,
                 std::vector<std::string_view>* parts) {
  size_t p = 0, t = 0, star = std::string_view::npos, taken = 0, begin = 0;
  const auto end_part = [&] {
    if (parts != nullptr && star != std::string_view::npos) parts->push_back(text.substr(begin, taken - begin));
  };
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == any) {
      end_part();
      star = p++;
      taken = begin = t;
    } else if (p < pattern.size() && (pattern[p] == one || pattern[p] == text[t])) {
      t += pattern[p++] == one ? character_at(text, t).bytes : 1;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      taken += character_at(text, taken).bytes;
      t = taken;
    } else {
      return false;
    }
  }
  if (pattern.find_first_not_of(any, p) != std::string_view::npos) return false;
  end_part();
  if (parts != nullptr) parts->resize(parts->size() + pattern.size() - p);
  return true;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text, char any, char one) {
  return match_parts(pattern, text, any, one, nullptr);
}

bool any_matches(std::span<const std::string> patterns, std::string_view text) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, text); });
}

std::optional<std::string> matched_text(std::string_view pattern, std::string_view name, std::string_view text) {
  std::vector<std::string_view> parts;
  if (!match_parts(pattern, name, '*', '?', &parts)) return std::nullopt;
  std::string result;
  size_t star = 0;
  for (const char c : text) c == '*' ? result += parts.at(star++) : result += c;
  return result;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
}

std::string join_path(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::string relative_path(const std::string& folder, const std::string& path) {
  const std::filesystem::path relative = std::filesystem::path(path).lexically_relative(folder);
  std::error_code ignored;
  return (relative.empty() ? std::filesystem::absolute(path, ignored) : relative).string();
}

}  // namespace runner
