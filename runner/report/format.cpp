#include "runner/report/format.h"

#include <algorithm>
#include <array>
#include <ctime>

#include <fmt/format.h>

#include "schema/base/color.h"
#include "schema/base/utf8.h"

namespace runner::report {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";  // replaces a byte that is not UTF-8

struct CodeRange {
  char32_t first, last;
};

// Zero-width and wide blocks of Unicode 15 (general categories Mn and Cf; UAX #11, East_Asian_Width W and F). Whole
// blocks are precise enough for names and notes.
constexpr std::array kZeroWidth{CodeRange{0x300, 0x36F},   CodeRange{0x200B, 0x200F}, CodeRange{0x202A, 0x202E},
                                CodeRange{0x20D0, 0x20FF}, CodeRange{0xFE00, 0xFE0F}, CodeRange{0xE0100, 0xE01EF}};
constexpr std::array kWide{CodeRange{0x1100, 0x115F},   CodeRange{0x2E80, 0xA4CF},   CodeRange{0xAC00, 0xD7A3},
                           CodeRange{0xF900, 0xFAFF},   CodeRange{0xFE30, 0xFE4F},   CodeRange{0xFF00, 0xFF60},
                           CodeRange{0xFFE0, 0xFFE6},   CodeRange{0x1F300, 0x1F64F}, CodeRange{0x1F680, 0x1F6FF},
                           CodeRange{0x1F900, 0x1F9FF}, CodeRange{0x20000, 0x3FFFD}};

template <size_t N>
bool contains(const std::array<CodeRange, N>& blocks, char32_t code) {
  return std::any_of(blocks.begin(), blocks.end(), [&](CodeRange b) { return b.first <= code && code <= b.last; });
}

int width_of(char32_t code) {
  if (code < 0x300) return 1;
  if (contains(kZeroWidth, code)) return 0;
  return contains(kWide, code) ? 2 : 1;
}

}  // namespace

std::string rounded_text(double value) {
  return fmt::format("{:.6g}", value);
}

std::string short_text(double value) {
  constexpr std::array<std::string_view, 5> kSuffixes{"", "k", "M", "G", "T"};
  size_t power = 0;
  while (value >= 999.5 && power + 1 < kSuffixes.size()) {
    value /= 1000;
    ++power;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, kSuffixes[power]);
}

std::string bytes_text(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 4> kUnits{"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string ranges_text(std::span<const int> numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string local_time(int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

bool is_printable_ascii(std::string_view text) {
  bool printable = true;
  for (const char c : text) printable &= c >= 0x20 && c < 0x7F;
  return printable;
}

int display_width(std::string_view text) {
  if (is_printable_ascii(text)) return static_cast<int>(text.size());
  int width = 0;
  for_each_character(text, [&](const Character& character, std::string_view) { width += width_of(character.code); });
  return width;
}

std::string shortened(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  int used = 0;
  size_t end = 0;
  while (end < text.size()) {
    const Character c = character_at(text, end);
    used += width_of(c.code);
    if (used > width - 1) break;
    end += c.bytes;
  }
  return std::string(text.substr(0, end)) + "…";
}

namespace {

// Appends at most `width` columns of `line`. Colour codes of the removed part are kept, because they end earlier
// colours.
void append_cut(std::string& out, std::string_view line, int width) {
  int used = 0;
  for (size_t at = 0; at < line.size();) {
    if (const size_t color = color_bytes(line, at)) {
      out += line.substr(at, color);
      at += color;
      continue;
    }
    const Character c = character_at(line, at);
    used += width_of(c.code);
    if (used <= width) out += line.substr(at, c.bytes);
    at += c.bytes;
  }
}

}  // namespace

std::string cut_to_screen(std::string_view text, int width, int height) {
  std::string out;
  for (int lines = 1; lines < height && !text.empty(); ++lines) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_cut(out, text.substr(0, end), width);
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

bool is_standard_output(std::string_view file) {
  return file == "-" || file == "/dev/stdout";
}

std::string file_text(std::string_view file) {
  return is_standard_output(file) ? "to standard output" : on_one_line(file);
}

std::string on_one_line(std::string_view text) {
  if (is_printable_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](const Character& character, std::string_view bytes) {
    if (!character.is_utf8) {
      out += kReplacement;
    } else {
      is_unsafe(character) ? out += ' ' : out += bytes;
    }
  });
  return out;
}

}  // namespace runner::report
