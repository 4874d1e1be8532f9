// Reads values by the type of their field. Thread-safe.
#pragma once

#include <optional>
#include <string>

#include "schema/base/value.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// Reads `node` as the field's type: bool; int64 (integers, sizes in bytes); double; text (texts, paths as written,
// choices, characters, metrics); a length as "10 steps"; a column as text or int64; a list of these. Reports an invalid
// value under the name `path` and returns none. Not for sections and free values.
std::optional<Value> read_field_value(const Field& field, const YamlNode& node, const std::string& path,
                                      Report& report);

// Reads a value of `vars`: plain scalars by YAML's rules, lists and maps of them.
std::optional<Value> read_free_value(const YamlNode& node, const std::string& path, Report& report);

// Returns the value of a default of the table.
Value read_default(const Field& field, const FieldDefault& fallback);

}  // namespace runner::schema
