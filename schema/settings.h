// The settings of a recipe: what every field of the table holds, where that came from, and what is wrong with it.
//
// Everything here follows from the field table; rules about several keys are in schema/recipe_check.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/field_value.h"

namespace runner::schema {

struct Setting {
  std::string path;  // "optimizer.lr", "optimizer.groups[0].lr", "vars.width"
  const Field* field = nullptr;
  Value value;
  OriginKind origin = OriginKind::kDefault;
  Place place;  // of the value; of a default: of its section
};

// What the fields of one section need to know of the others; sorted by path.
class Settings {
 public:
  std::vector<Setting> values;      // with a value, written or by default
  std::vector<Setting> sections;    // that exist; without a value
  std::vector<std::string> broken;  // whose faults have been reported

  const Setting* find(std::string_view path) const;
  const Setting* section(std::string_view path) const;
  // True if the field or a section around it has a fault: rules that look at it should keep quiet.
  bool is_broken(std::string_view path) const;
  bool is_written(std::string_view path) const;

  // Values by type; nothing where there is none.
  std::optional<std::string_view> text(std::string_view path) const;
  std::optional<double> number(std::string_view path) const;
  std::optional<int64_t> integer(std::string_view path) const;
  bool is_true(std::string_view path) const;
};

// Checks a composed tree against the table and fills the defaults in.
Settings bind(const YamlTree& tree, Report& report);

// Reports values that do not work yet.
void check_availability(const Settings& settings, Report& report);

// The paths nearest to an unknown key as "did you mean …?": in its own section first, else elsewhere; else the names
// that its section knows.  schema: the section in the table, "optimizer.groups[]"; path: with indices.
std::string suggest_key(std::string_view schema, const std::string& path, std::string_view name);

}  // namespace runner::schema
