// Output of `selftest`. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::report {

// One check of a scenario.
struct Figure {
  std::string what;
  std::string got, wanted;
  bool right = false;
};

// Result of a scenario on a backend.
struct ScenarioResult {
  std::string_view id;      // "data/shards"
  std::string_view source;  // numbers of the corresponding tests of Accelerate: "1, 14"
  std::string_view about;
  std::string_view backend;     // empty if not run
  std::string_view reason;      // reason for not being run, or empty
  std::vector<Figure> figures;  // empty if not run
  double seconds = 0;

  bool is_run() const { return reason.empty(); }
  bool passed() const;  // run, with all figures right
  bool failed() const { return is_run() && !passed(); }
};

// A table, followed by the wrong figures of failed scenarios. `width`: 0 for no limit.
std::string selftest_text(std::span<const ScenarioResult> results, int width, bool color);
// {"passed", "failed", "not_run", "seconds", "scenarios": [{"id", "source", "about", "backend", "status", "reason",
// "seconds", "figures": [{"what", "got", "wanted", "right"}]}]}.
std::string selftest_document(std::span<const ScenarioResult> results);

}  // namespace runner::report
