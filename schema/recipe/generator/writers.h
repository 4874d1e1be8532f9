// Contents of the files that the build generates from fields.yaml.
#pragma once

#include <string>

#include "schema/recipe/generator/field_file.h"

namespace runner::generator {

// The constexpr array kFields, for schema/recipe/field_table.cpp.
std::string field_table(const FieldFile& file);

// The enums and structs of a recipe, for schema/recipe/recipe.h.
std::string recipe_structs(const FieldFile& file);

// A function read() for each of the structs, for schema/recipe/recipe_build.cpp.
std::string recipe_readers(const FieldFile& file);

// A string literal.
std::string quoted(const std::string& text);

std::string join(const std::vector<std::string>& texts, const char* separator);

}  // namespace runner::generator
