// The contents of fields.yaml.
#pragma once

#include <string>
#include <vector>

namespace runner::generator {

// Holds if the field at `path` has one of `values`.
struct Condition {
  std::string path;
  std::vector<std::string> values;
};

struct Default {
  std::vector<std::string> values;  // one, unless is_list
  bool is_list = false;
  std::vector<Condition> when;
};

// One entry of `fields` or of a template; fields.yaml documents each attribute.
struct Entry {
  std::string parent, name;  // the two parts of its path
  std::string type;          // without "list of"
  bool is_list = false;
  bool is_scalar = false;
  std::string range, count, excludes, shorthand, unit, like, resume, text;
  bool nonempty = false, required = false, optional = false, later = false;
  std::vector<std::string> choices;
  std::vector<Default> defaults;  // those of default_if come first
  std::vector<Condition> when, implied_by;
  std::vector<std::string> cpp;  // names of members, if given
  std::string enum_type, struct_type, unset;

  bool is_section() const { return type == "section"; }
  // Whether the choices are words that may be written instead of a number.
  bool has_words() const { return (type == "integer" || type == "number") && !choices.empty(); }
  std::string path() const { return parent.empty() ? name : parent + "." + name; }
};

struct Template {
  std::string name;
  std::string struct_type;
  std::string member;  // name of the member of this type, in sections that also have fields of their own
  std::vector<Entry> entries;
};

struct FieldFile {
  std::vector<Entry> entries;
  std::vector<Template> templates;

  // Throws std::runtime_error if there is none.
  const Template& find_template(const std::string& name) const;
};

// Throws std::runtime_error if the file cannot be read or has an unknown attribute.
FieldFile read_field_file(const char* path);

// Throws std::runtime_error with the path of the entry.
[[noreturn]] void refuse(const Entry& entry, const std::string& what);

}  // namespace runner::generator
