#include "tests/schema/case_file.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include <stdlib.h>

#include "schema/recipe/recipe_reader.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::schema::testing {
namespace {

namespace fs = std::filesystem;
using support::read_text;
using support::write_text;

constexpr std::string_view kBase[] = {
    "schema_version: 1",      "model: {type: linear}", "data: {train: {format: csv, path: d.csv}, batch_size: 4}",
    "optimizer: {type: sgd}", "train: {epochs: 1}",
};

// Returns the base recipe for "%base" or "%base - KEY KEY".
std::string base_lines(std::string_view directive) {
  std::string text;
  for (const std::string_view line : kBase) {
    const std::string key = " " + std::string(line.substr(0, line.find(':')));
    const size_t at = directive.find(key);
    const bool left_out =
        at != std::string_view::npos && (at + key.size() == directive.size() || directive[at + key.size()] == ' ');
    if (!left_out) text += std::string(line) + "\n";
  }
  return text;
}

std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
    } else if (text[++i] == 'x') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i] == 't' ? '\t' : text[i] == 'n' ? '\n' : text[i];
    }
  }
  return out;
}

std::pair<std::string, std::string> split(const std::string& text, char at) {
  const size_t position = text.find(at);
  return {text.substr(0, position), text.substr(position + 1)};
}

std::string values_named_in(const std::string& expected, const ReadResult& result) {
  std::string text;
  std::istringstream lines(expected);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const std::string path = line.substr(0, line.find(" = "));
    const Leaf* leaf = result.find(path);
    text += path + " = " + (leaf != nullptr ? canonical_text(leaf->value) : "?") + "\n";
  }
  return text;
}

}  // namespace

std::vector<std::string> case_files() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(support::source_path("tests/schema/cases"))) {
    if (entry.path().extension() == ".test") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::istringstream lines(read_text(path));
  std::string pending, ignored;  // comments before a case
  std::string* into = &ignored;
  bool escaped = false;
  const auto finish = [&] {
    if (escaped) *into = unescape(*into);
    escaped = false;
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("== ")) {
      finish();
      Case& c = cases.emplace_back();
      c.name = line.substr(3);
      c.source = pending + line + "\n";
      pending.clear();
      into = &ignored;
      continue;
    }
    if (cases.empty() || (line.starts_with("#") && into == &cases.back().expected)) {
      pending += line + "\n";
      continue;
    }
    Case& c = cases.back();
    if (into != &c.expected) c.source += line + "\n";
    if (line.starts_with("@")) {
      finish();
      const auto [directive, argument] = split(line + " ", ' ');
      std::string value = argument.substr(0, argument.empty() ? 0 : argument.size() - 1);
      if (value.starts_with("escaped ")) value = unescape(value.substr(8));
      constexpr std::string_view kDirectives[] = {"@recipe", "@file", "@set", "@env", "@errors", "@values"};
      if (std::ranges::find(kDirectives, directive) == std::end(kDirectives))
        throw std::runtime_error(path + ": unknown directive " + directive);
      into = &ignored;
      if (directive == "@recipe") into = &c.recipe, escaped = value == "escaped";
      if (directive == "@file") into = &c.files.emplace_back(value, "").second;
      if (directive == "@set") c.overrides.push_back(value);
      if (directive == "@env") c.environment.push_back(split(value, '='));
      if (directive == "@errors" || directive == "@values") into = &c.expected;
      c.expects_errors |= directive == "@errors";
    } else if (line.starts_with("%base")) {
      *into += base_lines(line);
    } else if (line.starts_with("%fill ")) {
      *into += std::string(std::stoul(line.substr(6)), '#') + "\n";
    } else {
      *into += line + "\n";
    }
  }
  finish();
  for (Case& c : cases) {
    while (c.expected.ends_with("\n\n")) c.expected.pop_back();
  }
  return cases;
}

Outcome run_case(const Case& c) {
  const support::TempFolder folder;
  const support::CurrentFolder inside(folder.path());
  write_text("recipe.yaml", c.recipe);
  for (const auto& [path, text] : c.files) write_text(path, text);
  for (const auto& [name, value] : c.environment) setenv(name.c_str(), value.c_str(), 1);
  Outcome outcome;
  try {
    const ReadResult result = read_recipe("recipe.yaml", c.overrides);
    outcome.text = values_named_in(c.expected, result);
  } catch (const RecipeError& error) {
    outcome.errors = true;
    outcome.text = error.what();
  }
  for (const auto& [name, value] : c.environment) unsetenv(name.c_str());
  return outcome;
}

}  // namespace runner::schema::testing
