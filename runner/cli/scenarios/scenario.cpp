#include "runner/cli/scenarios/scenario.h"

#include <array>

namespace runner::cli::scenarios {
namespace {

constexpr std::array<std::string_view, 1> kBackends{"cpu"};

}  // namespace

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  for (const auto part : {data_scenarios(), process_scenarios(), training_scenarios(), metric_scenarios(),
                          state_scenarios(), scenarios_elsewhere()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::span<const std::string_view> backends() {
  return kBackends;
}

}  // namespace runner::cli::scenarios
