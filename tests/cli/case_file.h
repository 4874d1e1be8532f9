// Text-driven command line cases: tests/cli/cases/*.test.
//
//   # a comment
//   == name of the case          each case has an empty folder of its own
//   @store                       makes runner.db there (sample_store.h)
//   @file NAME                   a file, up to the next @ line
//   @run COMMAND                 a shell command; `runner` is the binary under test.  Several may follow each other
//   @exit N                      of the command before; 0 where it is not said
//   @stdout                      its exact output, up to the next @ line; none where it is not said
//   @stderr
//
// In an expected text, <id> stands for a run's id, <time> and <utc> for times, <n> for a whole number, <x> for any
// number, <folder> for the case's folder, <*> for anything on the line, and a line "..." for any lines.  Two spaces or
// more match any number of them from two on.
//
// RUNNER_UPDATE=1 rewrites what follows @stdout and @stderr where it does not match; review the difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace runner::cli::testing {

struct Step {
  std::string command;
  int exit_code = 0;
  std::string out, err;  // expected
  int line = 0;          // of @run in the file
};

struct Case {
  std::string name;
  bool store = false;
  std::vector<std::pair<std::string, std::string>> files;  // name, text
  std::vector<Step> steps;
};

// Throws std::runtime_error naming the line for a file that is not written as above.
std::vector<Case> read_cases(const std::string& path);

// Whether `text` is what `expected` says.
bool matches(const std::string& expected, const std::string& text, const std::string& folder);

// Returns `expected` with as few changes as possible so that it matches `text`.
std::string updated(const std::string& expected, const std::string& text, const std::string& folder);

// Returns the text of a case file with new expected outputs for a step of a case.
// `step`: index of the step in the case, from 0.  The file must have the case and the step.
std::string with_outputs(const std::string& file, const std::string& case_name, size_t step, const std::string& out,
                         const std::string& err);

}  // namespace runner::cli::testing
