// Warnings about settings of a valid recipe that have no effect, or probably another effect than intended.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Returns texts with file and line, one or more from each warn_of_…() of the source file. train::start_warnings() adds
// those that depend on the device. Thread-safe.
std::vector<std::string> recipe_warnings(const ReadResult& recipe);

}  // namespace runner::schema
