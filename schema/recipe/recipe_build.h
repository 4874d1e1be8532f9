// Fills the Recipe structs from checked settings. Thread-safe.
#pragma once

#include <string>

#include "schema/recipe/recipe.h"
#include "schema/recipe/settings.h"

namespace runner::schema {

// `settings`: without faults and with derived defaults (recipe_check.h). `folder`: prefix of relative paths.
Recipe build_recipe(const Settings& settings, const std::string& folder);

// Returns the index of a value among the choices of its field: enumerators have their order.
size_t choice_index(const Setting& setting);

// Parses a length in canonical form, such as "100 steps".
Length parse_length(std::string_view text);

}  // namespace runner::schema
