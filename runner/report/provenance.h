// What a run is recorded with besides its recipe: git state, environment, and the texts that it was made from.
//
// Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "store/provenance.h"

namespace runner::report {

// Looks: some milliseconds, most of them git's, and never more than a second.  `folder`: of the recipe; `sources`: what
// the recipe was read from besides its own file.  Never throws for what cannot be found out.
store::Provenance collect_provenance(const std::string& folder, std::vector<store::SourceText> sources);

}  // namespace runner::report
