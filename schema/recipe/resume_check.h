// Checks the overrides of a resumed run. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Returns the differences between the stored recipe of a run and the new one that require a fork; empty if the run may
// be resumed. `is_finished`: the run has reached its end, so that a fork needs more steps or a restart. `resume:` in
// schema/fields.yaml defines which fields may change. Whether the data allow another division of optimizer steps into
// batches is checked when the run is restored.
std::vector<Diagnostic> check_resume_overrides(const ReadResult& before, const ReadResult& after,
                                               bool is_finished = false);

// Returns the settings with which a run continues on another number of processes, and an optimizer step keeps its
// number of samples. Returns nullopt if they cannot be divided among the processes.
std::optional<std::vector<std::string>> settings_for_processes(const Recipe& recipe, int64_t processes);

}  // namespace runner::schema
