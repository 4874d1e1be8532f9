#include "schema/recipe/generator/field_file.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include <yaml-cpp/yaml.h>

namespace runner::generator {
namespace {

constexpr const char* kAttributes[] = {"path",       "type",    "range",    "count",    "nonempty",   "default",
                                       "default_if", "choices", "required", "optional", "implied_by", "when",
                                       "later",      "resume",  "excludes", "unit",     "like",       "text",
                                       "cpp",        "enum",    "struct",   "unset",    "scalar",     "shorthand"};

std::string text_of(const YAML::Node& node, const char* key, const char* otherwise = "") {
  const YAML::Node value = node[key];
  return value ? value.Scalar() : otherwise;
}

// One name, or a list of names.
std::vector<std::string> names_of(const YAML::Node& node) {
  if (!node.IsDefined()) return {};
  if (node.IsScalar()) return {node.Scalar()};
  std::vector<std::string> names;
  for (const YAML::Node& item : node) names.push_back(item.Scalar());
  return names;
}

std::vector<Condition> conditions_of(const YAML::Node& node) {
  std::vector<Condition> conditions;
  if (!node.IsDefined()) return conditions;
  for (const auto& condition : node) conditions.push_back({condition.first.Scalar(), names_of(condition.second)});
  return conditions;
}

std::vector<Default> defaults_of(const YAML::Node& node) {
  std::vector<Default> defaults;
  const auto add = [&](const YAML::Node& value, std::vector<Condition> when) {
    defaults.push_back({names_of(value), value.IsSequence(), std::move(when)});
  };
  if (const YAML::Node others = node["default_if"])
    for (const YAML::Node& other : others) add(other["value"], conditions_of(other["when"]));
  if (const YAML::Node usual = node["default"]) add(usual, {});
  return defaults;
}

Entry read_entry(const YAML::Node& node) {
  Entry entry;
  const std::string path = node["path"].Scalar();
  const size_t dot = path.rfind('.');
  if (dot != std::string::npos) entry.parent = path.substr(0, dot);
  entry.name = path.substr(dot == std::string::npos ? 0 : dot + 1);
  for (const auto& attribute : node)
    if (std::find(std::begin(kAttributes), std::end(kAttributes), attribute.first.Scalar()) == std::end(kAttributes))
      refuse(entry, "unknown attribute " + attribute.first.Scalar());
  constexpr std::string_view kList = "list of ";
  entry.type = text_of(node, "type");
  entry.is_list = entry.type.starts_with(kList);
  if (entry.is_list) entry.type.erase(0, kList.size());
  entry.range = text_of(node, "range");
  entry.count = text_of(node, "count", "0");
  entry.excludes = text_of(node, "excludes");
  entry.shorthand = text_of(node, "shorthand");
  entry.unit = text_of(node, "unit");
  entry.like = text_of(node, "like");
  entry.resume = text_of(node, "resume", "fixed");
  if (entry.parent == "model" && !node["resume"]) refuse(entry, "a field of model needs `resume`");
  entry.text = text_of(node, "text");
  if (entry.text.empty()) refuse(entry, "no text");
  entry.is_scalar = node["scalar"].IsDefined();
  entry.nonempty = node["nonempty"].IsDefined();
  entry.required = node["required"].IsDefined();
  entry.optional = node["optional"].IsDefined();
  entry.choices = names_of(node["choices"]);
  entry.later = node["later"].IsDefined();
  entry.defaults = defaults_of(node);
  entry.when = conditions_of(node["when"]);
  entry.implied_by = conditions_of(node["implied_by"]);
  entry.cpp = names_of(node["cpp"]);
  entry.enum_type = text_of(node, "enum");
  entry.struct_type = text_of(node, "struct");
  entry.unset = text_of(node, "unset");
  return entry;
}

std::vector<Entry> read_entries(const YAML::Node& list) {
  std::vector<Entry> entries;
  for (const YAML::Node& node : list) entries.push_back(read_entry(node));
  return entries;
}

}  // namespace

const Template& FieldFile::find_template(const std::string& name) const {
  for (const Template& candidate : templates)
    if (candidate.name == name) return candidate;
  throw std::runtime_error("there is no template " + name);
}

FieldFile read_field_file(const char* path) {
  const YAML::Node document = YAML::LoadFile(path);
  FieldFile file{read_entries(document["fields"]), {}};
  for (const auto& shared : document["templates"]) {
    const YAML::Node& node = shared.second;
    file.templates.push_back(
        {shared.first.Scalar(), text_of(node, "struct"), text_of(node, "member"), read_entries(node["fields"])});
  }
  return file;
}

void refuse(const Entry& entry, const std::string& what) {
  throw std::runtime_error(entry.path() + ": " + what);
}

}  // namespace runner::generator
