#include "schema/base/source_text.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "schema/base/secrets.h"
#include "schema/base/text.h"

namespace runner::schema {

std::string_view name_of(OriginKind kind) {
  constexpr std::string_view kNames[] = {"default", "recipe", "include", "command line", "env"};
  return kNames[static_cast<size_t>(kind)];
}

int count_characters(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
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

bool is_utf16(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

namespace {

// Returns printable text: a tab would misplace the caret, and unsafe characters would affect the terminal.
std::string showable(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (text[at] == '\t') {
      shown += ' ';
    } else if (length == 0 || is_unsafe(character_at(text, at).code)) {
      shown += '?';
    } else {
      shown += text.substr(at, length);
    }
    at += std::max<size_t>(length, 1);
  }
  return shown;
}

}  // namespace

SourceText::SourceText(OriginKind kind, std::string name, std::string folder, std::string text)
    : kind_(kind), name_(std::move(name)), folder_(std::move(folder)), text_(std::move(text)), line_starts_{0} {
  for (size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
}

std::string_view SourceText::line(int number) const {
  const auto index = static_cast<size_t>(number) - 1;
  if (index >= line_starts_.size()) return {};
  const size_t end = index + 1 < line_starts_.size() ? line_starts_[index + 1] - 1 : text_.size();
  std::string_view line = std::string_view(text_).substr(line_starts_[index], end - line_starts_[index]);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Place SourceText::place_at(int source, size_t offset, int width) const {
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const size_t start = *(next - 1);
  const int column = 1 + count_characters(std::string_view(text_).substr(start, offset - start));
  return {source, static_cast<int>(next - line_starts_.begin()), column, width};
}

int Report::add_source(SourceText source) {
  sources_.push_back(std::move(source));
  return source_count() - 1;
}

SourceMark Report::mark(const Place& place) const {
  return {hide_secrets(source(place.source).name()), place.line, place.column};
}

Diagnostic Report::diagnostic(ErrorId id, const Place& place, std::string_view key, std::string_view message,
                              std::string_view hint) const {
  const std::string line = showable(source(place.source).line(place.line));
  const int width = std::clamp(place.width, 1, std::max(1, count_characters(line) - place.column + 1));
  return {id,
          mark(place),
          width,
          showable(key),
          showable(hide_secrets(std::string(message))),
          showable(hide_secrets(std::string(hint))),
          line};
}

namespace {

// Characters that word processors write in place of those that YAML knows.
struct Lookalike {
  std::string_view bytes, what;
};
constexpr Lookalike kLookalikes[] = {
    {"\u00A0", "a no-break space (U+00A0), which is part of a word in YAML; write an ordinary space"},
    {"\u201C", "a typographic quote (U+201C); YAML's quotes are \" and '"},
    {"\u201D", "a typographic quote (U+201D); YAML's quotes are \" and '"},
    {"\u201E", "a typographic quote (U+201E); YAML's quotes are \" and '"},
    {"\u2018", "a typographic quote (U+2018); YAML's quotes are \" and '"},
    {"\u2019", "a typographic quote (U+2019); YAML's quotes are \" and '"},
};

}  // namespace

void Report::add(ErrorId id, const Place& place, std::string_view key, std::string_view message,
                 std::string_view hint) {
  const auto lookalike_in = [&](int number) {
    const std::string_view line = number > 0 ? source(place.source).line(number) : std::string_view();
    const auto* const found =
        std::ranges::find_if(kLookalikes, [&](const Lookalike& each) { return line.find(each.bytes) != line.npos; });
    return found != std::end(kLookalikes) ? found->what : std::string_view();
  };
  std::string more;
  if (const std::string_view here = lookalike_in(place.line); !here.empty()) {
    more = fmt::format("the line has {}", here);
  } else if (const std::string_view above = lookalike_in(place.line - 1);
             id == ErrorId::kYamlSyntax && !above.empty()) {
    more = fmt::format("the line above has {}", above);
  }
  const std::string all = hint.empty() || more.empty() ? std::string(hint) + more : fmt::format("{}; {}", more, hint);
  found_.push_back({place, diagnostic(id, place, key, message, all)});
}

std::vector<Diagnostic> Report::take() {
  const auto order = [](const Place& p) { return std::tuple(p.source, p.line, p.column); };
  std::stable_sort(found_.begin(), found_.end(),
                   [&](const Found& a, const Found& b) { return order(a.place) < order(b.place); });
  std::vector<Diagnostic> diagnostics;
  for (Found& found : found_) diagnostics.push_back(std::move(found.diagnostic));
  found_.clear();
  return diagnostics;
}

}  // namespace runner::schema
