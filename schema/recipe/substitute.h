// Substitutes ${vars.NAME} and ${env:NAME:default} in the values of a recipe.
//
// A value that consists of one ${…} gets the variable's value and type, which may be a list or a section. Within a
// longer text the variable must be a scalar. $${ means ${. Executes nothing. Reads the environment; thread-safe while
// no thread modifies it.
//
// A variable is secret if its name says so (secrets.h) or the key `secret` lists it. Its value is then recorded as a
// reference ${secret:NAME:DIGEST}. In the recorded recipe of a run, a reference reads the variable again.
#pragma once

#include <string>
#include <vector>

#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// References ${…} to secret variables, to others, or both.
enum class References { kSecret, kOther, kAll };

// Returns text that reads as `text`: $${ instead of ${ in the given references.
std::string escape_references(std::string text, References which = References::kAll);

// Returns the names that the key `secret` of a recipe lists. Remembers the values of those that are set.
std::vector<std::string> secret_names(const YamlNode& recipe);

// Expands all scalars of the recipe, first `vars`, used or not. A value with a fault becomes kInvalid. Adds the
// variables of the environment to `reads`.
void substitute(YamlNode& recipe, std::vector<EnvironmentRead>& reads, Report& report);

// As above for one value, with only the environment. `secret`: secret_names().
void substitute_environment(YamlNode& value, const std::vector<std::string>& secret,
                            std::vector<EnvironmentRead>& reads, Report& report);

}  // namespace runner::schema
