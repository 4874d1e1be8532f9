// Text-driven recipe cases: tests/schema/cases/*.test.
//
//   # a comment
//   == name of the case
//   @recipe                      the text of recipe.yaml up to the next @ line; `@recipe escaped` decodes \xNN, \t, \n
//     %base                      stands for the five lines of a small valid recipe; `%base - KEY …` leaves lines out
//     %fill N                    a comment of N characters
//   @file sub/other.yaml         another file beside it
//   @set key=value               a command line argument; `@set escaped` and `@env escaped` decode too
//   @env NAME=value
//   @errors                      last: the exact text of all errors
//   @values                      or: lines "path = canonical value" (or "path = ? " for no value) that must hold
//
// RUNNER_UPDATE=1 rewrites what follows @errors and @values; review the difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace runner::schema::testing {

struct Case {
  std::string name;
  std::string source;  // its lines up to the expectation, as they stand in the file
  std::string recipe;
  std::vector<std::pair<std::string, std::string>> files;  // path, text
  std::vector<std::string> overrides;
  std::vector<std::pair<std::string, std::string>> environment;  // name, value
  bool expects_errors = false;
  std::string expected;
};

std::vector<Case> read_cases(const std::string& path);

// Every cases/*.test of the source tree, sorted.
std::vector<std::string> case_files();

// What a case gives: the rendered errors, or the values that its expectation names.
struct Outcome {
  bool errors = false;
  std::string text;
};

// Runs a case in an empty folder of its own, which is the current one meanwhile.
Outcome run_case(const Case& c);

}  // namespace runner::schema::testing
