// Converts the tree of a recipe to settings by the field table.
//
// Reports unknown, missing and ignored keys and invalid values; adds defaults.
#pragma once

#include "schema/recipe/settings.h"

namespace runner::schema {

Settings bind(const YamlTree& tree, Report& report);

}  // namespace runner::schema
