// The settings of a recipe: the value of each field and its origin.
//
// Created by bind() (bind.h). Values and sections are sorted by path. Const functions are thread-safe.
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
  Place place;          // of the value; for a default, of its section
  Value recorded = {};  // the value with references for secret variables (secrets.h); null if it has none
};

struct Settings {
  std::vector<Setting> values;      // fields with a value, written or default
  std::vector<Setting> sections;    // existing sections; without values
  std::vector<std::string> broken;  // paths with faults, which have been reported

  const Setting* find(std::string_view path) const;
  const Setting* section(std::string_view path) const;
  // Whether the field or a section around it has a fault. Rules that depend on it should then report nothing.
  bool is_broken(std::string_view path) const;
  bool is_written(std::string_view path) const;

  // Values by type; none if the field has no value of that type.
  std::optional<std::string_view> text(std::string_view path) const;
  std::optional<double> number(std::string_view path) const;
  std::optional<int64_t> integer(std::string_view path) const;
  bool is_true(std::string_view path) const;
};

}  // namespace runner::schema
