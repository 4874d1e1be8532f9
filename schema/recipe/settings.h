// The settings of a recipe: what every field of the table holds, and where that came from.
//
// Made by bind() (schema/recipe/bind.h); values and sections are sorted by path.  Const functions are thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/value.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/yaml_tree.h"

namespace runner::schema {

struct Setting {
  std::string path;  // "optimizer.lr", "optimizer.groups[0].lr", "vars.width"
  const Field* field = nullptr;
  Value value;
  OriginKind origin = OriginKind::kDefault;
  Place place;  // of the value; of a default: of its section
};

struct Settings {
  std::vector<Setting> values;      // with a value, written or by default
  std::vector<Setting> sections;    // that exist; without a value
  std::vector<std::string> broken;  // paths whose faults have been reported

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

}  // namespace runner::schema
