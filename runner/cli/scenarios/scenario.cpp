#include "runner/cli/scenarios/scenario.h"

#include <array>

namespace runner::cli::scenarios {
namespace {

// Defaults: one process on the TPU if a scenario does not set a number, and arithmetic with the same bits as the CPU.
const std::array<Backend, 3> kBackends{{{"cpu", {"backend=cpu"}},
                                        {"gpu", {"backend=gpu"}},
                                        {"tpu", {"backend=tpu", "num_processes=1"}, {"tpu.matmul_precision=highest"}}}};

}  // namespace

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all;
  for (const auto part : {data_scenarios(), process_scenarios(), training_scenarios(), metric_scenarios(),
                          state_scenarios(), scenarios_elsewhere()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::span<const Backend> backends() {
  return kBackends;
}

}  // namespace runner::cli::scenarios
