// The scenarios of `selftest`: what Accelerate's own tests check, and what they leave out, as rows of a table.
//
// A scenario trains small models through the program itself and compares figures with what must come out: figures
// counted by hand, formulas in plain loops, or another training that must be equal.  A new one is a row in one of the
// tables and a function beside it.  Constant data, thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "runner/cli/scenarios/workbench.h"

namespace runner::cli::scenarios {

struct Scenario {
  std::string_view id;  // "data/shards"
  // Which of Accelerate's tests it stands for, numbered in the order of docs/selftest.md; "gap": none of them.
  std::string_view source;
  std::string_view about;
  void (*check)(Workbench& bench) = nullptr;  // null: it cannot be run here
  std::string_view reason = {};               // why it cannot
  std::string_view only = {};                 // the backend that it is of; empty: any
};

std::span<const Scenario> data_scenarios();
std::span<const Scenario> process_scenarios();
std::span<const Scenario> training_scenarios();
std::span<const Scenario> metric_scenarios();
std::span<const Scenario> state_scenarios();
// What has no place in this product, or is tested elsewhere.
std::span<const Scenario> scenarios_elsewhere();

// All of them, in this order.
std::vector<Scenario> all_scenarios();

// The backends that they are run on.
std::span<const Backend> backends();

}  // namespace runner::cli::scenarios
