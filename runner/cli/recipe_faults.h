// What is wrong with a recipe that its text alone does not show, told as faults of the text are.
#pragma once

#include <vector>

#include "schema/diagnostic.h"
#include "schema/recipe_reader.h"

namespace runner::cli {

// Runs the hook file.  Each fault has the line of the file where that can be told, else that of the key `hooks`.
std::vector<schema::Diagnostic> hook_faults(const schema::ReadResult& recipe);

// Of the emulated device that it asks for.
std::vector<schema::Diagnostic> device_faults(const schema::ReadResult& recipe);
// Throws them as a schema::RecipeError.
void check_device(const schema::ReadResult& recipe);

}  // namespace runner::cli
