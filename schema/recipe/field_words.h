// Descriptions of fields and values, for messages, `runner explain` and the reference page. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/value.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

// "3", "true", "the text \"x\"", "an empty text", "a list", "a section", "null", "nothing": for "…, got X".
std::string describe(const YamlNode& node);

// "an integer", "a list of numbers".
std::string type_phrase(const Field& field);

// "between 1 and 8", "at least 0", "greater than 0 and less than 1", "" without bounds.
std::string range_phrase(const Field& field);

// Names of the choices or words; empty if there are none.
std::vector<std::string> choice_names(const Field& field);

// What does not work yet, to append to the field's text: " Not implemented yet."; "" if everything works.
std::string availability_phrase(const Field& field);

// A length or a size in canonical form: "1 epoch", "10 steps", "25 MiB".
std::string length_text(int64_t count, std::string_view unit);
std::string size_text(int64_t bytes);
// As size_text(), rounded if it would have more than four digits: "25 MiB", "1.43 GiB".
std::string readable_size(int64_t bytes);

// A value of this field as written in a recipe: sizes with their unit.
Value as_written(const Field& field, const Value& value);

// The units of sizes, largest first.
struct SizeUnit {
  std::string_view name;
  int64_t bytes;
};
inline constexpr SizeUnit kSizeUnits[] = {
    {"TiB", int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}};

// "optimizer.lr" from "optimizer" and "lr"; top-level keys have the section "".
std::string child_path(std::string_view section, std::string_view name);

// Whether a key is `section` or a part of it: a, a.b and a[0] are within a.
bool is_within(std::string_view key, std::string_view section);

// Hint for an unknown key: what it is called here, if another program calls it so; else "did you mean …?" with the
// nearest paths in its own section, else in others; else the names that its section has. `schema`: section in the
// table, "optimizer.groups[]". `path`: with indices.
std::string suggest_key(std::string_view schema, const std::string& path, std::string_view name);

}  // namespace runner::schema
