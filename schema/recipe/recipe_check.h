// Rules about several keys of a recipe, and defaults that follow from other keys.
//
// A rule reports nothing if a key that it depends on has a fault itself.
#pragma once

#include <string>

#include "schema/recipe/settings.h"

namespace runner::schema {

// `complete`: false if parts of the recipe could not be read; then no key is reported as missing.
void check_together(const Settings& settings, bool complete, Report& report);

// Adds `name`, from the file's name, and `eval.every` if there is evaluation data.
void derive_defaults(Settings& settings, const std::string& file);

}  // namespace runner::schema
