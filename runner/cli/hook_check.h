// What is wrong with the hook of a recipe, told as faults of the recipe are.
#pragma once

#include <vector>

#include "schema/diagnostic.h"
#include "schema/recipe_reader.h"

namespace runner::cli {

// Runs the hook file.  Each fault has the line of the file where that can be told, else that of the key `hooks`.
std::vector<schema::Diagnostic> hook_faults(const schema::ReadResult& recipe);

}  // namespace runner::cli
