// Text-driven recipe cases: tests/schema/cases/*.test.
//
//   # a comment
//   == name of the case
//   @recipe                      the text of recipe.yaml up to the next @ line; `@recipe escaped` decodes \xNN, \t, \n
//     %base                      the five lines of a small valid recipe; `%base - KEY …` leaves lines out
//     %fill N                    a comment of N characters
//   @file sub/other.yaml         another file, relative to recipe.yaml
//   @set key=value               a command line argument; `@set escaped` and `@env escaped` decode too
//   @env NAME=value
//   @errors                      at the end: the exact text of all errors
//   @values                      or at the end: lines "path = canonical value" ("path = ?" for no value)
//
// RUNNER_UPDATE=1 rewrites the lines after @errors and @values; review the difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace runner::schema::testing {

struct Case {
  std::string name;
  std::string source;  // its lines in the file before the expectation
  std::string recipe;
  std::vector<std::pair<std::string, std::string>> files;  // path, text
  std::vector<std::string> overrides;
  std::vector<std::pair<std::string, std::string>> environment;  // name, value
  bool expects_errors = false;
  std::string expected;
};

std::vector<Case> read_cases(const std::string& path);

// Returns the paths of all cases/*.test, sorted.
std::vector<std::string> case_files();

// Result of a case: the rendered errors, or the values that its expectation names.
struct Outcome {
  bool errors = false;
  std::string text;
};

// Runs a case in a separate empty folder, which is the current folder meanwhile.
Outcome run_case(const Case& c);

}  // namespace runner::schema::testing
