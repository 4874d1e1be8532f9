#include "tests/docs/transcript.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <regex>
#include <vector>

#include "tests/docs/blocks.h"
#include "tests/support/expected_text.h"

namespace runner::docs {
namespace {

constexpr const char* kNumber = R"((-?\d+(?:\.\d+)?(?:e[-+]?\d+)?))";

// Text that may differ between runs: the pattern of the shown text, and the pattern of the printed text.
struct Varying {
  const char* shown;
  const char* printed;
  bool is_number = false;
};
constexpr Varying kVarying[] = {
    {R"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3}Z)?)", R"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3}Z)?)"},
    {R"(\d+(\.\d+)? (s|ms|µs|min)\b)", R"(\d+(?:\.\d+)? (?:s|ms|µs|min))"},
    {R"(\d[0-9a-z]{9}\b)", "[0-9a-z]{10}"},
    {R"(-?\d+(\.\d+(e[-+]?\d+)?|e[-+]?\d+)(?![.\w]))", kNumber, true},
    {R"(\.\.\.)", ".*"},
    {"│.*", "│.*"},
    {" {2,}", " {2,}"},
};

struct Expectation {
  std::regex printed;
  std::vector<double> numbers;  // expected values of its groups
};

// Whether a number at line[at] belongs to a word, such as a version.
bool inside_word(const std::string& line, size_t at) {
  const auto is = [&](size_t i, const char* more) {
    return std::isalnum(static_cast<unsigned char>(line[i])) || std::strchr(more, line[i]) != nullptr;
  };
  return at > 0 && is(at - 1, "._") && is(at, "-");
}

Expectation expectation_of(const std::string& line) {
  static const std::vector<std::regex> varying = [] {
    std::vector<std::regex> expressions;
    for (const Varying& row : kVarying) expressions.emplace_back(row.shown);
    return expressions;
  }();
  static const std::regex special(R"([.^$|()\[\]{}*+?\\])");
  Expectation expectation;
  const size_t start = std::min(line.find_first_not_of(' '), line.size());
  std::string expression = " *";
  for (size_t at = start; at < line.size();) {
    std::smatch match;
    size_t row = inside_word(line, at) ? varying.size() : 0;
    const auto here = line.begin() + static_cast<std::ptrdiff_t>(at);
    while (row < varying.size() &&
           !std::regex_search(here, line.end(), match, varying[row], std::regex_constants::match_continuous))
      ++row;
    if (row == varying.size()) {
      expression += std::regex_replace(line.substr(at++, 1), special, R"(\$&)");
      continue;
    }
    expression += kVarying[row].printed;
    if (kVarying[row].is_number) expectation.numbers.push_back(std::stod(match.str()));
    at += static_cast<size_t>(match.length());
  }
  expectation.printed = std::regex(expression + " *");
  return expectation;
}

bool agrees(double shown, double printed) {
  return std::abs(shown - printed) <= 0.1 * std::max(std::abs(shown), std::abs(printed));
}

bool line_agrees(const std::string& shown, const std::string& printed) {
  const Expectation expectation = expectation_of(shown);
  std::smatch match;
  if (!std::regex_match(printed, match, expectation.printed)) return false;
  for (size_t i = 0; i < expectation.numbers.size(); ++i) {
    if (!agrees(expectation.numbers[i], std::stod(match[i + 1]))) return false;
  }
  return true;
}

bool lines_agree(const std::vector<std::string>& shown, size_t s, const std::vector<std::string>& printed, size_t p) {
  for (; s < shown.size(); ++s, ++p) {
    if (shown[s] == "...") {
      for (size_t next = p; next <= printed.size(); ++next) {
        if (lines_agree(shown, s + 1, printed, next)) return true;
      }
      return false;
    }
    if (p == printed.size() || !line_agrees(shown[s], printed[p])) return false;
  }
  return p == printed.size();
}

}  // namespace

bool shows(const std::string& shown, const std::string& printed) {
  std::vector<std::string> expected = lines_of(shown);
  while (!expected.empty() && expected.back().empty()) expected.pop_back();  // before the next command
  return lines_agree(expected, 0, lines_of(printed), 0);
}

std::string updated(const std::string& shown, const std::string& printed) {
  if (shows(shown, printed)) return shown;
  const support::ExpectedStyle style{
      .matches = line_agrees,
      .written = [](const std::string& line) { return line; },
      .any_lines = "...",
      .any_words = "...",
  };
  std::vector<std::string> lines = lines_of(shown);
  const auto text = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) { return !line.empty(); });
  const std::vector<std::string> blank(text.base(), lines.end());  // before the next command
  lines.erase(text.base(), lines.end());
  lines = shown.find("│") == std::string::npos ? support::updated_lines(lines, lines_of(printed), style)
                                               : lines_of(printed);
  lines.insert(lines.end(), blank.begin(), blank.end());
  std::string result;
  for (const std::string& line : lines) result += line + '\n';
  return result;
}

}  // namespace runner::docs
