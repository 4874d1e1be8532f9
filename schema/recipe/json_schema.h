// The field table as JSON Schema and as documentation. Thread-safe.
#pragma once

#include <string>

#include "schema/recipe/field_table.h"

namespace runner::schema {

// Returns a JSON Schema (draft 2020-12) for editors, committed as schema/runner.schema.json. It accepts every recipe
// that the reader accepts. It has keys, types, ranges and choices, but no rules between keys.
std::string json_schema();

// A row of docs/recipe.md as plain text.
struct FieldReference {
  std::string type, fallback, meaning;  // `fallback`: the default, "required", or empty for none
};
FieldReference reference_of(const Field& field);

// Returns docs/recipe.md: every key, its type, default and meaning.
std::string recipe_reference();

}  // namespace runner::schema
