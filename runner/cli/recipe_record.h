// What the store keeps of a recipe that has been read.  Thread-safe.
#pragma once

#include <vector>

#include "schema/recipe_reader.h"
#include "store/run_store.h"

namespace runner::cli {

store::RecipeRecord record_of(const schema::ReadResult& recipe);

// The record of a run that goes on: its text and origins are those of `before`, except that what the command line of
// this attempt has set says so.
store::RecipeRecord record_of_resumed(const store::RecipeRecord& before, const schema::ReadResult& after);

// `after` with its paths as `before` had them from its folder, where this attempt has not set them: resuming alone
// changes neither hash nor parameters.
schema::ReadResult with_paths_as_written(const store::RecipeRecord& before, schema::ReadResult after);

std::vector<store::Param> params_of(const schema::ReadResult& recipe);

}  // namespace runner::cli
