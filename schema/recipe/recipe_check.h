// Checks of the settings of a recipe, and defaults that follow from other keys.
//
// A rule about several keys reports nothing if a key that it depends on has a fault itself.
#pragma once

#include <string>

#include "schema/recipe/recipe.h"
#include "schema/recipe/settings.h"

namespace runner::schema {

// `complete`: false if parts of the recipe could not be read; then no key is reported as missing.
void check_together(const Settings& settings, bool complete, Report& report);

// Reports written values that do not work yet (`later` in schema/fields.yaml).
void check_availability(const Settings& settings, Report& report);

// Returns the number of devices on the board of one host: 8 for a v3-8.
int devices_on_board(TpuGeneration generation);

// Adds `name`, from the file's name, and `eval.every` if there is evaluation data.
void derive_defaults(Settings& settings, const std::string& file);

}  // namespace runner::schema
