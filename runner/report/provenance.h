// Provenance recorded with a run in addition to its recipe: git state, environment, and source texts.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "store/provenance.h"

namespace runner::report {

// Returns the part that takes no time to collect: the environment and `sources`, the texts other than the recipe itself
// that the run was created from.
store::Provenance provenance_at_start(std::vector<store::AttemptSource> sources);

// Adds the git state of the recipe's folder `folder` and the uncommitted changes. Takes some milliseconds, at most one
// second. Does not throw if something cannot be determined.
void add_git_state(store::Provenance& provenance, const std::string& folder);

}  // namespace runner::report
