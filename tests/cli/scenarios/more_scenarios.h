// Scenarios that the self-test of the program does not have; selftest_test.cpp runs them. With those of the program
// they cover the topics of Accelerate's own tests and gaps in them: docs/selftest.md has the table.
#pragma once

#include <span>

#include "runner/cli/scenarios/scenario.h"

namespace runner::cli::scenarios {

std::span<const Scenario> data_scenarios();
std::span<const Scenario> process_scenarios();
std::span<const Scenario> training_scenarios();
std::span<const Scenario> metric_scenarios();
std::span<const Scenario> state_scenarios();

}  // namespace runner::cli::scenarios
