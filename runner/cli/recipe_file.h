// Reading of the recipe that a command line names. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/cli/commands/shared_options.h"
#include "runner/report/output.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::cli {

// Returns which environment variables set values of the recipe, and which of them are secret; empty if none does.
std::string environment_text(const schema::ReadResult& recipe);

// Calls read_recipe(), and protects the recipe and its includes from outputs (used_files.h). Unless `quiet`, prints
// which environment variables the recipe reads: a recipe of another author could read more than its user expects.
// `reads_config`: gives the model the values in config.json of model.pretrained.
schema::ReadResult read_recipe_file(const RecipeOptions& options, report::Output& out, bool quiet = false,
                                    bool reads_config = true);

// Returns the value of num_processes if the recipe or the command line sets it.
std::optional<int64_t> given_processes(const schema::ReadResult& recipe);

// Returns the recipe, or if it does not set num_processes, reads it again with this number.
schema::ReadResult with_processes(schema::ReadResult recipe, const RecipeOptions& options, int64_t processes,
                                  report::Output& out);

// Adds to an error about a key of the recipe where the key is set. Recorded recipes have no places.
void set_place_of_key(Error& error, const schema::ReadResult& recipe);

// Returns work(). Calls set_place_of_key() for its errors.
template <class Work>
auto at_recipe_key(const schema::ReadResult& recipe, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    set_place_of_key(error, recipe);
    throw;
  }
}

}  // namespace runner::cli
