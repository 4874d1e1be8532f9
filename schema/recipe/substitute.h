// Substitutes ${vars.NAME} and ${env:NAME:default} in the values of a recipe.
//
// A value that consists of one ${…} gets the variable's value and type, which may be a list or a section. Within a
// longer text the variable must be a scalar. $${ means ${. Executes nothing. Reads the environment; thread-safe while
// no thread modifies it.
#pragma once

#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// Expands all scalars of the recipe, first `vars`, used or not. A value with a fault becomes kInvalid.
void substitute(YamlNode& recipe, Report& report);

// As above for one value, with only the environment.
void substitute_environment(YamlNode& value, Report& report);

}  // namespace runner::schema
