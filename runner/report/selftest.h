// What `selftest` prints.  Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::report {

// One thing that a scenario looks at.
struct Figure {
  std::string what;
  std::string got, wanted;
  bool right = false;
};

// A scenario on a backend.
struct ScenarioResult {
  std::string_view id;      // "data/shards"
  std::string_view source;  // which of Accelerate's own tests it stands for: "1, 14"
  std::string_view about;
  std::string_view backend;     // empty: it is not run
  std::string_view reason;      // why it is not run; else empty
  std::vector<Figure> figures;  // none where it is not run
  double seconds = 0;

  bool is_run() const { return reason.empty(); }
  bool passed() const;  // was run, and every figure is right
  bool failed() const { return is_run() && !passed(); }
};

// A table, and below it the figures of what failed.  `width`: 0: no limit.
std::string selftest_text(std::span<const ScenarioResult> results, int width, bool color);
// {"passed", "failed", "not_run", "seconds", "scenarios": [{"id", "source", "about", "backend", "status", "reason",
// "seconds", "figures": [{"what", "got", "wanted", "right"}]}]}.
std::string selftest_document(std::span<const ScenarioResult> results);

}  // namespace runner::report
