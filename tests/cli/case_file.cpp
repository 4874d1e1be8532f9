#include "tests/cli/case_file.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/support/expected_text.h"
#include "tests/support/lines.h"
#include "tests/support/pattern.h"

namespace runner::cli::testing {
namespace {

// A last line without an end is marked.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = support::lines_of(text);
  if (!text.empty() && text.back() != '\n') lines.back() += "<no newline>";
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

// Converts an expected line to a regular expression.
support::Pattern pattern_of(const std::string& line, const std::string& folder) {
  static const support::Pattern special(R"([.^$|()\[\]{}*+?\\])"), spaces(" {2,}"), leading("^ +");
  constexpr std::pair<const char*, const char*> kPlaceholders[] = {
      {"<id>", "[0-9a-z]{10}"},
      {"<time>", "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d"},
      {"<utc>", "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z"},
      {"<n>", "-?\\d+"},
      {"<x>", "(-?\\d+(\\.\\d+)?(e[-+]?\\d+)?|nan)"},
      {"<\\*>", ".*"},  // special characters were escaped before
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

// Replaces the parts of an actual line that differ between runs by placeholders.
std::string with_placeholders(const std::string& line, const std::string& folder) {
  static const support::Pattern utc(R"(\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
  static const support::Pattern time(R"(\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"), id(R"(\b\d[0-9a-z]{9}\b)");
  return id.replace_all(time.replace_all(utc.replace_all(replace_all(line, folder, "<folder>"), "<utc>"), "<time>"),
                        "<id>");
}

// The lines of a step: its @run, @exit, @stdout and @stderr.
struct Section {
  std::vector<std::string>::iterator begin, end;
};

Section section_of(std::vector<std::string>& lines, const std::string& case_name, size_t step) {
  const auto is_run = [](const std::string& line) { return line.starts_with("@run "); };
  const auto is_file = [](const std::string& line) { return line.starts_with("@file "); };
  auto at = std::find(lines.begin(), lines.end(), "== " + case_name);
  if (at == lines.end()) throw std::runtime_error("no such case: " + case_name);
  const auto end = std::find_if(at + 1, lines.end(), [](const std::string& line) { return line.starts_with("== "); });
  for (size_t i = 0; i <= step; ++i) {
    at = std::find_if(at + 1, end, is_run);
    if (at == end) throw std::runtime_error(fmt::format("{} has no step {}", case_name, step));
  }
  return {at, std::find_if(at + 1, end, [&](const std::string& line) { return is_run(line) || is_file(line); })};
}

// Replaces the outputs in the lines of a step. An empty output has no directive.
void set_outputs(std::vector<std::string>& section, const std::string& out, const std::string& err) {
  const auto is_directive = [](const std::string& line) { return line.starts_with("@"); };
  const auto is_text = [](const std::string& line) { return !line.empty(); };
  const auto is_output = [](const std::string& line) { return line == "@stdout" || line == "@stderr"; };
  auto begin = std::find_if(section.begin(), section.end(), is_output);
  if (begin == section.end()) {
    begin = std::find_if(section.rbegin(), section.rend(), is_directive).base();
  } else {  // keeps the blank lines before the next case
    begin = section.erase(begin, std::find_if(section.rbegin(), section.rend(), is_text).base());
  }
  std::vector<std::string> outputs;
  for (const auto& [directive, text] : {std::pair("@stdout", out), std::pair("@stderr", err)}) {
    if (text.empty()) continue;
    const std::vector<std::string> lines = lines_of(text);
    outputs.emplace_back(directive);
    outputs.insert(outputs.end(), lines.begin(), lines.end());
  }
  section.insert(begin, outputs.begin(), outputs.end());
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
      Step* const step = c.steps.empty() ? nullptr : &c.steps.back();
      into = &ignored;
      if (directive == "@store")
        c.store = true;
      else if (directive == "@file")
        into = &c.files.emplace_back(argument, "").second;
      else if (directive == "@run")
        c.steps.push_back({argument, 0, "", "", number});
      else if (step != nullptr && directive == "@exit")
        step->exit_code = std::stoi(argument);
      else if (step != nullptr && directive == "@stdout")
        into = &step->out;
      else if (step != nullptr && directive == "@stderr")
        into = &step->err;
      else
        wrong(line);
    } else if (into != &ignored) {
      *into += line + '\n';
    } else if (!line.empty() && !line.starts_with("#")) {
      wrong(line);
    }
  }
  // Empty lines before the next case do not belong to the output.
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

std::string updated(const std::string& expected, const std::string& text, const std::string& folder) {
  if (matches(expected, text, folder)) return expected;
  const support::ExpectedStyle style{
      .matches = [&](const std::string& line,
                     const std::string& actual) { return pattern_of(line, folder).matches(actual); },
      .written = [&](const std::string& line) { return with_placeholders(line, folder); },
      .any_lines = "...",
      .any_words = "<*>",
  };
  return joined(support::updated_lines(lines_of(expected), lines_of(text), style));
}

std::string with_outputs(const std::string& file, const std::string& case_name, size_t step, const std::string& out,
                         const std::string& err) {
  std::vector<std::string> lines = lines_of(file);
  const Section found = section_of(lines, case_name, step);
  std::vector<std::string> section(found.begin, found.end);
  set_outputs(section, out, err);
  section.insert(section.begin(), lines.begin(), found.begin);
  section.insert(section.end(), found.end, lines.end());
  return joined(section);
}

}  // namespace runner::cli::testing
