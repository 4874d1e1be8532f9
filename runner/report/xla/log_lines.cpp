#include "runner/report/xla/log_lines.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "schema/base/text.h"

namespace runner::report::xla {
namespace {

// Indexed by LineKey.
constexpr std::string_view kKeys[] = {"Metric", "Counter",   "TotalSamples", "Accumulator", "Mean",
                                      "StdDev", "ValueRate", "Rate",         "Percentiles", "Value"};
constexpr std::string_view kStepPrefix = "[MetricsData; step=";

std::string without_colors(std::string_view line) {
  std::string plain;
  for (;;) {
    const size_t escape = line.find("\x1b[");
    plain += line.substr(0, escape);
    if (escape == std::string_view::npos) return plain;
    const size_t last = line.find_first_not_of("0123456789;", escape + 2);
    if (last == std::string_view::npos) return plain;
    line.remove_prefix(last + 1);
  }
}

// The first keyword in a line: a separate word followed by a colon, and then by a space or the end of the line.
struct FoundKey {
  LineKey key = LineKey::kOther;
  size_t at = 0;          // its position
  std::string_view rest;  // text after the colon
};

FoundKey find_key(std::string_view line) {
  for (size_t colon = line.find(':'); colon != std::string_view::npos; colon = line.find(':', colon + 1)) {
    const std::string_view rest = line.substr(colon + 1);
    if (!rest.empty() && rest.front() != ' ') continue;
    size_t begin = colon;
    while (begin > 0 && is_word_byte(line[begin - 1])) --begin;
    const auto key = std::ranges::find(kKeys, line.substr(begin, colon - begin));
    if (key != std::end(kKeys)) return {static_cast<LineKey>(key - std::begin(kKeys)), begin, rest};
  }
  return {};
}

int rank_of(std::string_view prefix) {
  constexpr std::string_view kRank = "rank";
  const size_t at = prefix.find(kRank);
  if (at == std::string_view::npos) return -1;
  const size_t digits = std::min(prefix.find_first_not_of(" =:", at + kRank.size()), prefix.size());
  int rank = -1;
  std::from_chars(prefix.data() + digits, prefix.data() + prefix.size(), rank);
  return std::max(rank, -1);
}

LogLine read_line(std::string_view line, int number) {
  LogLine read;
  read.number = number;
  if (const size_t step = line.find(kStepPrefix); step != std::string_view::npos) {
    const std::string_view rest = line.substr(step + kStepPrefix.size());
    read.key = LineKey::kStep;
    read.value = rest.substr(0, rest.find(']'));
    read.rank = rank_of(line.substr(0, step));
    return read;
  }
  const FoundKey found = find_key(line);
  if (found.key == LineKey::kOther) return read;
  read.key = found.key;
  read.value = trim(found.rest);
  read.rank = rank_of(line.substr(0, found.at));
  return read;
}

}  // namespace

void for_each_line(std::string_view text, const std::function<void(const LogLine&)>& visit) {
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const bool is_ended = end != std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(is_ended ? end + 1 : text.size());
    while (!line.empty()) {
      const size_t part = std::min({line.find('\r'), line.find("\\n"), line.size()});
      const std::string plain = without_colors(line.substr(0, part));
      LogLine read = read_line(plain, number);
      read.is_unended = !is_ended && part == line.size();
      if (!trim(plain).empty()) visit(read);
      line.remove_prefix(std::min(line.size(), part + (line.substr(part).starts_with('\\') ? 2 : 1)));
    }
  }
}

std::string_view name_of(LineKey key) {
  return key < LineKey::kStep ? kKeys[static_cast<size_t>(key)] : "";
}

}  // namespace runner::report::xla
