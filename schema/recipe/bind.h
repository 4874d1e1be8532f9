// From the tree of a recipe to settings: every key against its row of the field table.
//
// Reports unknown, missing and ignored keys and values that do not fit; fills defaults in.
#pragma once

#include "schema/recipe/settings.h"

namespace runner::schema {

Settings bind(const YamlTree& tree, Report& report);

}  // namespace runner::schema
