// Conversion of recipes to records of the store. Thread-safe.
#pragma once

#include <vector>

#include "schema/recipe/recipe_reader.h"
#include "store/run_store.h"

namespace runner::cli {

store::RecipeRecord record_of(const schema::ReadResult& recipe);

// Returns the record of a resumed run. Keeps the text and origins of `before`, except that settings from the command
// line of this attempt have that origin.
store::RecipeRecord record_of_resumed(const store::RecipeRecord& before, const schema::ReadResult& after);

// Replaces paths in `after` that this attempt did not set by their original spelling in `before`, so that resuming
// alone changes neither hash nor parameters.
schema::ReadResult with_paths_as_written(const store::RecipeRecord& before, schema::ReadResult after);

std::vector<store::Param> params_of(const schema::ReadResult& recipe);

}  // namespace runner::cli
