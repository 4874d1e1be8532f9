// ${vars.NAME} and ${env:NAME:default} in the values of a recipe.
//
// A value that is nothing but one ${…} takes the variable's value and type, lists and sections included; inside a
// longer text the variable must be a scalar.  $${ stands for ${.  Nothing is executed.  Reads the environment, so it is
// thread-safe as long as nobody changes that.
#pragma once

#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// Expands every scalar of the recipe; `vars` first, used or not.  A fault leaves the value kInvalid.
void substitute(YamlNode& recipe, Report& report);

// The same for one value, where only the environment is known.
void substitute_environment(YamlNode& value, Report& report);

}  // namespace runner::schema
