// Values as JSON, for the .cpp files of this folder that write it.  Thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include "schema/recipe_reader.h"

namespace runner::schema {

using Json = nlohmann::ordered_json;

Json to_json(const Value& value);

// A value of this field as it would be written in a recipe: sizes with their unit.
Json to_json(const Field& field, const Value& value);

// Indented by two spaces, without a final line break; bytes that are not UTF-8 are replaced.
std::string dump(const Json& document);

}  // namespace runner::schema
