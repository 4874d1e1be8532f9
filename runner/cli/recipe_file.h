// Reading of the recipe that a command line names. Thread-safe.
#pragma once

#include <string>

#include "runner/cli/commands/shared_options.h"
#include "runner/report/output.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

// Returns which environment variables set values of the recipe, and which of them are secret; empty if none does.
std::string environment_text(const schema::ReadResult& recipe);

// Calls read_recipe(), and protects the recipe and its includes from outputs (used_files.h). Unless `quiet`, prints
// which environment variables the recipe reads: a recipe of another author could read more than its user expects.
schema::ReadResult read_recipe_file(const RecipeOptions& options, report::Output& out, bool quiet = false);

}  // namespace runner::cli
