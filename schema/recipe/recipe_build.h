// From checked settings to the Recipe structs.  Thread-safe.
#pragma once

#include <string>

#include "schema/recipe/recipe.h"
#include "schema/recipe/settings.h"

namespace runner::schema {

// settings: free of faults, derived defaults included (recipe_check.h).  Paths become relative to where `folder` is.
Recipe build_recipe(const Settings& settings, const std::string& folder);

// "100 steps" in canonical form.
Length parse_length(std::string_view text);

}  // namespace runner::schema
