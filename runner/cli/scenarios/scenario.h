// The scenarios of `selftest`, which cover the topics of Accelerate's own tests and gaps in them, as tables.
//
// A scenario trains small models with this program and compares results with expected values: values counted by hand,
// formulas in plain loops, or another training that must be equal. To add a scenario, add a row to one of the tables
// and a function next to it. Constant data, thread-safe.
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
  void (*check)(Workbench& bench) = nullptr;  // null: cannot be run here
  std::string_view reason = {};               // reason why it cannot be run
  std::string_view only = {};                 // the only backend to run on; empty: all
};

std::span<const Scenario> data_scenarios();
std::span<const Scenario> process_scenarios();
std::span<const Scenario> training_scenarios();
std::span<const Scenario> metric_scenarios();
std::span<const Scenario> state_scenarios();
// Topics that do not apply to this program or are tested elsewhere.
std::span<const Scenario> scenarios_elsewhere();

// All of them, in this order.
std::vector<Scenario> all_scenarios();

// Backends on which scenarios run.
std::span<const Backend> backends();

}  // namespace runner::cli::scenarios
