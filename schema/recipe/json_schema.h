// The field table as other programs and people read it.  Thread-safe.
#pragma once

#include <string>

namespace runner::schema {

// A JSON Schema (draft 2020-12) that editors check recipes against; committed as schema/runner.schema.json.  It accepts
// every recipe that the reader accepts and knows keys, types, ranges and choices, but no rules between keys.
std::string json_schema();

// docs/recipe.md: every key, its type, default and meaning.
std::string recipe_reference();

}  // namespace runner::schema
