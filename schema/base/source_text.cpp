#include "schema/base/source_text.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "schema/base/secrets.h"
#include "schema/base/utf8.h"

namespace runner::schema {

std::string_view name_of(OriginKind kind) {
  constexpr std::string_view kNames[] = {"default", "recipe", "include", "command line", "env"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

// Returns printable text: a tab would misplace the caret, and unsafe characters would affect the terminal.
std::string showable(std::string_view text) {
  std::string shown;
  for_each_character(text, [&](const Character& character, std::string_view bytes) {
    if (character.code == '\t') {
      shown += ' ';
    } else {
      is_unsafe(character) ? shown += '?' : shown += bytes;
    }
  });
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
