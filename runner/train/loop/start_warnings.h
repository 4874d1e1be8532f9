// Warnings about settings of a valid recipe that have no effect, or probably another effect than intended.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::train {

// Returns the warnings of schema::recipe_warnings(), and those of the functions in the source file, which depend on the
// device and the machine. hook_optimizer_warnings() returns those about the optimizers of a hook. Thread-safe.
std::vector<std::string> start_warnings(const schema::ReadResult& recipe);

}  // namespace runner::train
