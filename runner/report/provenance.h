// What a run is recorded with besides its recipe: git state, environment, and the texts that it was made from.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "store/provenance.h"

namespace runner::report {

// What costs nothing to know: the environment, with `sources`, the texts besides the recipe's own that it was read
// from.
store::Provenance provenance_at_start(std::vector<store::SourceText> sources);

// Adds the git state of `folder`, of the recipe, and the uncommitted changes.  Takes some milliseconds and never more
// than a second; never throws for what cannot be found out.
void add_git_state(store::Provenance& provenance, const std::string& folder);

}  // namespace runner::report
