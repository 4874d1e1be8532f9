// The table of recipe fields, generated from schema/fields.yaml, which documents each attribute.
//
// Constant data without work at start-up, thread-safe. A path is "optimizer.lr"; sections of a list have "[]", as in
// "optimizer.groups[].lr". Several fields may share a path; then the `when` conditions of at most one of them hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::schema {

enum class FieldType : uint8_t {
  kSection,
  kBoolean,
  kInteger,
  kNumber,
  kText,
  kPath,
  kChoice,
  kLength,
  kSize,
  kCharacter,
  kColumn,
  kMetric,
  kFree,
  kClassWeights,
  kRenames,
};

// How a resumed run may change a field. kSameStep: if the number of samples per optimizer step stays the same.
// kShapesModel: not at all, because the field decides which parameters the model has.
enum class OnResume : uint8_t { kFixed, kAny, kLarger, kSameStep, kShapesModel };

struct Choice {
  std::string_view name;
};

// Holds if the choice at `path` is one of `values`.
struct Condition {
  std::string_view path;
  std::span<const std::string_view> values;
};

struct FieldDefault {
  std::string_view value;           // YAML: a scalar or a list of scalars in [ ]
  std::span<const Condition> when;  // empty if it always applies
};

// Bounds of an integer, a number or the count of a length.
struct Range {
  int64_t least, most;  // integers
  double low, high;     // numbers; infinite without a bound
  bool low_open, high_open;

  bool has(double number) const {
    return (low_open ? number > low : number >= low) && (high_open ? number < high : number <= high);
  }
};

struct Field {
  std::string_view parent;  // "" for top-level keys
  std::string_view name;
  FieldType type = FieldType::kSection;
  bool is_list = false;    // of `type`
  bool is_scalar = false;  // a list of one element may be written as the element
  bool required = false;
  bool optional = false;  // a section that exists only if written or implied
  bool later = false;     // only the default works yet
  OnResume on_resume = OnResume::kFixed;
  int order = 0;  // in fields.yaml
  int count = 0;  // exact length of a list; 0 for any
  bool nonempty = false;
  Range range{};
  std::span<const Choice> choices{};
  std::span<const Condition> when{};
  std::span<const Condition> implied_by{};
  std::span<const FieldDefault> defaults{};  // the first that holds applies
  std::string_view excludes{};               // name of a sibling that must not be written too
  std::string_view shorthand{};              // name of the field of a section that may be written instead of it
  std::string_view unit{};
  std::string_view text{};

  std::string path() const {
    return parent.empty() ? std::string(name) : std::string(parent) + "." + std::string(name);
  }
  // Whether a value of a path is a word instead, such as a kind of tokenizer.
  bool is_word(std::string_view value) const;
  // Whether the choices are words that may be written instead of a number.
  bool has_words() const { return (type == FieldType::kInteger || type == FieldType::kNumber) && !choices.empty(); }
  bool is_section() const { return type == FieldType::kSection; }
};

// All fields, sorted by parent, then name, then the order of fields.yaml.
std::span<const Field> fields();

// Fields of a section ("" is the top level), sorted by name.
std::span<const Field> fields_of(std::string_view section);

// Fields of a section grouped by path, in the order of fields.yaml.
std::vector<std::span<const Field>> fields_by_path(std::string_view section);

// Fields with this path, usually one; empty if there is none.
std::span<const Field> find_fields(std::string_view path);

// Returns the largest number of ranks of a run: the upper bound of num_processes.
int64_t largest_num_processes();

// Paths of the fields with this last word, those of the fewest words first: "lr" -> optimizer.lr,
// optimizer.groups[].lr.
std::vector<std::string> paths_ending_with(std::string_view word);

// "integer", "list of text", "length", …
std::string type_name(const Field& field);

}  // namespace runner::schema
