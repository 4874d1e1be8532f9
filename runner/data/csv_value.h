// Parses CSV fields: numbers, and a label column whose kind is known only after its last row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/data/storage.h"

namespace runner::data {

enum class Field { kNumber, kMissing, kNotFinite, kText };

// Removes spaces and tabs at both ends.
std::string_view trim(std::string_view text);

// Parses a number, correctly rounded to f32, with optional surrounding blanks. Missing values are an empty field, NA,
// N/A, NaN, null and ?, in upper or lower case.
Field parse_number(std::string_view text, float& value);
// Returns whether a trimmed text is a missing value.
bool is_missing(std::string_view text);

// Labels of a CSV column. Integers are classes, other numbers are targets. If any label is a text, all labels are class
// names, numbered in sorted order.
class LabelColumn {
 public:
  enum class Keep : bool { kKind, kLabels };

  // `keep`: kKind determines only the kind of the labels, in constant memory; kLabels keeps the labels.
  LabelColumn(std::string path, LabelsAs as, Keep keep) : path_(std::move(path)), as_(as), keep_(keep) {}

  // `text`: trimmed and not missing. `line`: line of the record.
  void add(std::string_view text, int64_t line);
  // Sets label kind, outputs and class names of `storage` and moves the kept labels into it. Throws Error(kData) naming
  // the line of a label that does not match the other labels or `as`.
  void finish(Storage& storage);

 private:
  struct Example {  // first label of a kind
    std::string text;
    int64_t line = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void finish_names(Storage& storage);
  [[noreturn]] void refuse(const Example& label, const char* why) const;

  std::string path_;
  LabelsAs as_;
  Keep keep_;
  std::vector<double> numbers_;  // as long as all labels are numbers
  int64_t largest_ = 0;          // largest integer label
  // The labels as texts. Discarded once there are so many different texts that the labels can only be numbers.
  std::vector<int32_t> name_ids_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> names_;
  bool has_names_ = true;
  Example text_, fraction_, no_class_;
};

// Convert one label, a text that a LabelColumn has accepted before, to a class or a target. `class_names`: sorted;
// empty if classes are numbers.
int64_t parse_class(std::string_view text, const std::vector<std::string>& class_names);
float parse_target(std::string_view text);

}  // namespace runner::data
