// Rules about several keys of a recipe, and defaults that follow from other keys.
//
// Each rule keeps quiet where a key that it looks at has a fault of its own.
#pragma once

#include <string>

#include "schema/recipe/settings.h"

namespace runner::schema {

// complete: false if parts of the recipe could not be read, so that nothing is called missing.
void check_together(const Settings& settings, bool complete, Report& report);

// Fills in name (from the file's name), and eval.every where there is evaluation data.
void derive_defaults(Settings& settings, const std::string& file);

}  // namespace runner::schema
