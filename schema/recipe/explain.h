// `runner explain`: value, origin and meaning of a recipe key. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/recipe/recipe_reader.h"

namespace runner::schema {

// `key`: a field or a section, such as "optimizer.lr", "optimizer.groups[0].lr", "data", "vars.width"; empty for the
// whole recipe. Throws Error(kUsage) with the nearest keys if there is no such key.
std::string explain_text(const ReadResult& result, const std::string& key);

struct KeyText {
  std::string key;
  std::string_view text;
};
// Returns all keys with their meaning, in the order of the table; one row for each path.
std::vector<KeyText> key_texts();

// The same without a recipe: type, default, meaning and choices of a key. Throws Error(kUsage) if there is no such key.
std::string explain_field(const std::string& key);

// {"key", "value", "type", "default", "unit", "origin": {"kind", "file", "line"}, "text"}. The value of a key
// that the recipe does not use is null. The value of a section, and of the whole recipe with key null, is an object.
// `more`: further members.
std::string explain_json(const ReadResult& result, const std::string& key, const ValueMap& more = {});

}  // namespace runner::schema
