// `runner explain`: what a key of a recipe holds, where that comes from, and what it means.  Thread-safe.
#pragma once

#include <string>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// key: of a field or a section, such as "optimizer.lr", "optimizer.groups[0].lr", "data", "vars.width"; empty: all that
// the recipe holds.  Throws Error(kUsage) with the nearest keys if there is no such key.
std::string explain_text(const ReadResult& result, const std::string& key);

// {"key", "value", "type", "default", "unit", "origin": {"kind", "file", "line"}, "text"}.  A key that the recipe does
// not use has the value null; a section has the object of its values, and so has the whole recipe, whose key is null.
std::string explain_json(const ReadResult& result, const std::string& key);

}  // namespace runner::schema
