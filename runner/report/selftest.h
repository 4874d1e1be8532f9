// Output of `selftest`. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::report {

struct Check {
  std::string what;
  std::string got, expected;
  bool passed = false;
};

// Result of a scenario on a backend.
struct ScenarioResult {
  std::string_view id;      // "data/shards"
  std::string_view source;  // numbers of the corresponding tests of Accelerate: "1, 14"
  std::string_view about;
  std::string_view backend;
  std::vector<Check> checks;
  double seconds = 0;

  bool passed() const;  // all checks, and there is at least one
};

// A table, followed by the failed checks. `width`: 0 for no limit.
std::string selftest_text(std::span<const ScenarioResult> results, int width, bool color);
// docs/cli.md lists the keys.
std::string selftest_document(std::span<const ScenarioResult> results);

}  // namespace runner::report
