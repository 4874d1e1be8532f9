// Topics of Accelerate's tests for which there is no scenario here, each with the reason.
#include "runner/cli/scenarios/scenario.h"

namespace runner::cli::scenarios {
namespace {

constexpr Scenario not_run(std::string_view id, std::string_view source, std::string_view about,
                           std::string_view reason) {
  return {id, source, about, nullptr, reason};
}

constexpr Scenario kScenariosElsewhere[] = {
    not_run("python/samplers", "2, 9", "samplers of a script's own", "batches are the recipe's"),
    not_run("python/shards", "10", "data sets that come in shards", "no format has them"),
    not_run("python/leaks", "11, 29", "objects freed with their owner", "sanitizers see to it in the test suite"),
    not_run("python/loaders", "13", "states of other libraries' loaders", "there is one loader"),
    not_run("python/singletons", "27", "states shared by the process", "a run has its own"),
    not_run("python/environment", "30", "variables of the environment", "they set nothing in a recipe"),
    not_run("python/map_location", "51", "states moved to a device", "a state belongs to no device"),
};

}  // namespace

std::span<const Scenario> scenarios_elsewhere() {
  return kScenariosElsewhere;
}

}  // namespace runner::cli::scenarios
