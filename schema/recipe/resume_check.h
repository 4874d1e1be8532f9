// What a resumed run may change.  Thread-safe.
#pragma once

#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// The differences between a stored run's recipe and the one it shall go on with that only a fork may have; empty if the
// run may be resumed.  `resume:` in schema/fields.yaml says what may change.
std::vector<Diagnostic> check_resume_overrides(const ReadResult& before, const ReadResult& after);

}  // namespace runner::schema
