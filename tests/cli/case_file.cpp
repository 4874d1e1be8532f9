#include "tests/cli/case_file.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/support/pattern.h"

namespace runner::cli::testing {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  if (!text.empty() && text.back() != '\n') lines.back() += "<no newline>";
  return lines;
}

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// An expected line as a regular expression.
support::Pattern pattern_of(const std::string& line, const std::string& folder) {
  static const support::Pattern special(R"([.^$|()\[\]{}*+?\\])"), spaces(" {2,}"), leading("^ +");
  constexpr std::pair<const char*, const char*> kPlaceholders[] = {
      {"<id>", "[0-9a-z]{10}"},
      {"<time>", "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d"},
      {"<utc>", "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z"},
      {"<n>", "-?\\d+"},
      {"<x>", "(-?\\d+(\\.\\d+)?(e[-+]?\\d+)?|nan)"},
      {"<\\*>", ".*"},  // special characters have been escaped before
  };
  std::string text = replace_all(line, "<folder>", folder);
  text = special.replace_all(text, R"(\$&)");
  text = leading.replace_all(text, " *");
  text = spaces.replace_all(text, " {2,}");
  for (const auto& [name, pattern] : kPlaceholders) text = replace_all(text, name, pattern);
  return support::Pattern(text);
}

bool lines_match(const std::vector<std::string>& expected, size_t e, const std::vector<std::string>& lines, size_t l,
                 const std::string& folder) {
  for (; e < expected.size(); ++e, ++l) {
    if (expected[e] == "...") {
      for (size_t skip = l; skip <= lines.size(); ++skip) {
        if (lines_match(expected, e + 1, lines, skip, folder)) return true;
      }
      return false;
    }
    if (l == lines.size() || !pattern_of(expected[e], folder).matches(lines[l])) return false;
  }
  return l == lines.size();
}

}  // namespace

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::ifstream file(path);
  std::string ignored;
  std::string* into = &ignored;
  int number = 0;
  const auto wrong = [&](const std::string& line) {
    throw std::runtime_error(fmt::format("{}:{}: not understood: {}", path, number, line));
  };
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.starts_with("== ")) {
      cases.push_back({.name = line.substr(3), .store = false, .files = {}, .steps = {}});
      into = &ignored;
    } else if (line.starts_with("@")) {
      if (cases.empty()) wrong(line);
      Case& c = cases.back();
      const size_t space = std::min(line.find(' '), line.size());
      const std::string directive = line.substr(0, space);
      const std::string argument = line.substr(std::min(space + 1, line.size()));
      into = &ignored;
      if (directive == "@store")
        c.store = true;
      else if (directive == "@file")
        into = &c.files.emplace_back(argument, "").second;
      else if (directive == "@run")
        c.steps.push_back({argument, 0, "", "", number});
      else if (c.steps.empty())
        wrong(line);
      else if (directive == "@exit")
        c.steps.back().exit_code = std::stoi(argument);
      else if (directive == "@stdout")
        into = &c.steps.back().out;
      else if (directive == "@stderr")
        into = &c.steps.back().err;
      else
        wrong(line);
    } else if (into != &ignored) {
      *into += line + '\n';
    } else if (!line.empty() && !line.starts_with("#")) {
      wrong(line);
    }
  }
  // Empty lines before the next case belong to none.
  for (Case& c : cases) {
    for (Step& step : c.steps) {
      for (std::string* text : {&step.out, &step.err}) {
        while (text->ends_with("\n\n")) text->pop_back();
        if (*text == "\n") text->clear();
      }
    }
  }
  return cases;
}

bool matches(const std::string& expected, const std::string& text, const std::string& folder) {
  return lines_match(lines_of(expected), 0, lines_of(text), 0, folder);
}

}  // namespace runner::cli::testing
