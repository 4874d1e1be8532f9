// Rewrites expected texts when the output has changed: RUNNER_UPDATE=1 (CONTRIBUTING.md). Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace runner::support {

// Whether RUNNER_UPDATE is set: tests then write their expected texts instead of comparing them.
bool should_update();

// How a kind of test writes expected texts.
struct ExpectedStyle {
  // Whether an expected line, or a part of one, matches the actual text.
  std::function<bool(const std::string& expected, const std::string& actual)> matches;
  // Returns the expected line for an actual line that no expected line resembles.
  std::function<std::string(const std::string& actual)> written;
  std::string any_lines;  // line that matches any number of lines
  std::string any_words;  // word that matches any number of words
};

// Returns `expected` with as few changes as possible so that it matches `actual`. Lines that still match are kept,
// patterns included. A changed line keeps the words that still match.
std::vector<std::string> updated_lines(const std::vector<std::string>& expected, const std::vector<std::string>& actual,
                                       const ExpectedStyle& style);

}  // namespace runner::support
