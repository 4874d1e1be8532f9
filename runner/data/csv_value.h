// The values of csv fields: numbers, and a column of labels whose kind is known at its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/data/storage.h"

namespace runner::data {

enum class Field { kNumber, kMissing, kNotFinite, kText };

// The text without blanks at its ends.
std::string_view trim(std::string_view text);

// Reads a number between blanks, correctly rounded to f32; missing is an empty field, NA, N/A, NaN, null or ?, in any
// case.
Field parse_number(std::string_view text, float& value);
// Whether a trimmed text is Field::kMissing.
bool is_missing(std::string_view text);

// Labels of a csv column.  Integers are classes, other numbers targets; where any label is a text, all are names of
// classes, numbered in sorted order.
class LabelColumn {
 public:
  enum class Keep : bool { kKind, kLabels };

  // Keep::kKind: only what the labels are, in memory that does not grow with their number.
  LabelColumn(std::string path, LabelsAs as, Keep keep) : path_(std::move(path)), as_(as), keep_(keep) {}

  // Takes the trimmed label of the record at `line`, which is not missing.
  void add(std::string_view text, int64_t line);
  // Sets kind, outputs and names of classes in `storage` and moves the labels that were kept there; throws Error(kData)
  // naming the line of one that does not fit the others or `as`.
  void finish(Storage& storage);

 private:
  struct Example {  // the first label of its sort
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
  std::vector<double> numbers_;  // while all labels are numbers
  int64_t largest_ = 0;          // of the integers
  // Labels as texts, given up once so many differ that only numbers are plausible.
  std::vector<int32_t> name_ids_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> names_;
  bool has_names_ = true;
  Example text_, fraction_, no_class_;
};

// One label as the other labels of its column have it: a class, or a target.  text: trimmed and not missing, as
// LabelColumn has taken it before.  class_names: sorted; empty where classes are numbers.
int64_t parse_class(std::string_view text, const std::vector<std::string>& class_names);
float parse_target(std::string_view text);

}  // namespace runner::data
