// Text-driven test cases of the command line: tests/cli/cases/*.test.
//
//   # a comment
//   == name of the case          each case has its own empty folder
//   @store                       creates runner.db there (sample_store.h)
//   @file NAME                   a file, up to the next @ line
//   @run COMMAND                 a shell command; `runner` is the binary under test. Repeat for several commands
//   @exit N                      exit code of the command above; default 0
//   @stdout                      its exact output, up to the next @ line; default empty
//   @stderr
//
// Placeholders in an expected text: <id> for a run's id, <time> and <utc> for times, <n> for an integer, <x> for any
// number, <folder> for the case's folder, <*> for anything on the line, and a line "..." for any lines. Two or more
// spaces match any number of at least two.
//
// RUNNER_UPDATE=1 rewrites the texts of @stdout and @stderr that do not match; review the difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace runner::cli::testing {

struct Step {
  std::string command;
  int exit_code = 0;
  std::string out, err;  // expected
  int line = 0;          // line of @run in the file
};

struct Case {
  std::string name;
  bool store = false;
  std::vector<std::pair<std::string, std::string>> files;  // name, text
  std::vector<Step> steps;
};

// Throws std::runtime_error with the line if the file has another syntax.
std::vector<Case> read_cases(const std::string& path);

// Returns whether `text` matches `expected`.
bool matches(const std::string& expected, const std::string& text, const std::string& folder);

// Returns `expected` with as few changes as possible so that it matches `text`.
std::string updated(const std::string& expected, const std::string& text, const std::string& folder);

// Returns the text of a case file with new expected outputs for a step of a case. `step`: index of the step in the
// case, from 0. The file must have the case and the step.
std::string with_outputs(const std::string& file, const std::string& case_name, size_t step, const std::string& out,
                         const std::string& err);

}  // namespace runner::cli::testing
