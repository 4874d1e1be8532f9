// The scenarios of `selftest`, as a table: one or two for each guarantee of the program. tests/cli/scenarios/ has more.
//
// A scenario trains small models with this program and compares results with expected values: values counted by hand,
// formulas in plain loops, or another training that must be equal. Constant data, thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "runner/cli/scenarios/workbench.h"

namespace runner::cli::scenarios {

struct Scenario {
  std::string_view id;  // "data/shards"
  // Numbers of the corresponding tests of Accelerate, in the order of docs/selftest.md, or "gap" for none.
  std::string_view source;
  std::string_view about;
  void (*check)(Workbench& bench);
  std::string_view only = {};  // the only backend to run on; empty: all
};

std::span<const Scenario> selftest_scenarios();

// Backends on which scenarios run.
std::span<const Backend> backends();

// Runs a scenario with `program` in a temporary folder.
report::ScenarioResult run(const Scenario& scenario, const std::filesystem::path& program, const Backend& backend,
                           const train::ChildWatch& watch);

}  // namespace runner::cli::scenarios
