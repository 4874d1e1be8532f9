// Warnings about settings of a valid recipe that have no effect, or probably another effect than intended.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// Returns texts with file and line. Warns about: the optimizer's rate and momentum with one_cycle, which replaces them,
// as torch's OneCycleLR does; a metric without a mode, if the inherited or default mode is probably wrong for it; on a
// TPU, several ranks by default, and fp16; a name under `secret` that the recipe does not read. train::start_warnings
// adds those that depend on the device. Thread-safe.
std::vector<std::string> recipe_warnings(const ReadResult& recipe);

}  // namespace runner::schema
