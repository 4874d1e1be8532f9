// Topics of Accelerate's tests for which there is no scenario here, each with the reason.
#include "runner/cli/scenarios/scenario.h"

namespace runner::cli::scenarios {
namespace {

constexpr Scenario not_run(std::string_view id, std::string_view source, std::string_view about,
                           std::string_view reason) {
  return {id, source, about, nullptr, reason};
}

constexpr Scenario kScenariosElsewhere[] = {
    not_run("python/samplers", "2, 9", "custom samplers of a script", "the recipe defines the batches"),
    not_run("python/shards", "10", "sharded data sets", "no format supports them"),
    not_run("python/leaks", "11, 29", "objects are freed with their owner", "checked by sanitizers in the test suite"),
    not_run("python/loaders", "13", "states of data loaders of other libraries", "there is only one data loader"),
    not_run("python/singletons", "27", "state shared within a process", "each run has its own state"),
    not_run("python/environment", "30", "environment variables", "they never set recipe values"),
    not_run("python/map_location", "51", "checkpoints mapped to a device", "a checkpoint does not depend on a device"),
};

}  // namespace

std::span<const Scenario> scenarios_elsewhere() {
  return kScenariosElsewhere;
}

}  // namespace runner::cli::scenarios
