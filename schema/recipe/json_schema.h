// The field table as JSON Schema and as documentation. Thread-safe.
#pragma once

#include <string>

namespace runner::schema {

// Returns a JSON Schema (draft 2020-12) for editors, committed as schema/runner.schema.json. It accepts every recipe
// that the reader accepts. It has keys, types, ranges and choices, but no rules between keys.
std::string json_schema();

// Returns docs/recipe.md: every key, its type, default and meaning.
std::string recipe_reference();

}  // namespace runner::schema
