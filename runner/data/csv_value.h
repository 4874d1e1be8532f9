// Parses CSV fields: numbers, and a label column whose kind is known only after its last row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/data/narrowing.h"
#include "runner/data/storage.h"

namespace runner::data {

enum class Field { kNumber, kMissing, kNotFinite, kText };

// Parses a number, correctly rounded to f32, with optional surrounding blanks. Missing values are an empty field, NA,
// N/A, NaN, null and ?, in upper or lower case.
Field parse_number(std::string_view text, float& value);
// Says why a text is Field::kNotFinite.
const char* why_not_finite(std::string_view text);
// Returns a number that parse_number() accepts, exact if it is an integer of up to 64 bits, else rounded to f64.
WideNumber parse_wide(std::string_view text);
// Returns whether a trimmed text is a missing value.
bool is_missing(std::string_view text);

// Parses a whole number: an integer, or one with a fraction of zeros, such as 1.0. Returns none for any other text,
// also for 1e3, which is a measurement.
std::optional<int64_t> parse_whole(std::string_view text);

// Labels of a CSV column. If any label is a text, all labels are names. Otherwise are_classes() decides.
class LabelColumn {
 public:
  enum class Keep : bool { kKind, kLabels };

  // `where`: the file and the column, for messages. `options` must outlive this object. `keep`: kKind determines only
  // the kind and the number of rows of each label; kLabels keeps the labels.
  LabelColumn(std::string path, std::string where, const ReadOptions& options, Keep keep)
      : path_(std::move(path)), where_(std::move(where)), options_(options), keep_(keep) {}

  // `text`: trimmed and not missing. `line`: line of the record.
  void add(std::string_view text, int64_t line);
  // Sets label kind, counts, outputs and class names of `storage` and moves the kept labels into it. Throws
  // Error(kData) naming the line of a label that does not match the other labels or options.labels.
  void finish(Storage& storage);

 private:
  struct Example {  // first label of a kind
    std::string text;
    int64_t line = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  // `rounded`: the number in f32.
  void add_number(std::string_view text, float rounded, int64_t line);
  void finish_names(Storage& storage);
  void finish_targets(Storage& storage);
  [[noreturn]] void refuse(const Example& label, std::string_view why) const;

  std::string path_, where_;
  const ReadOptions& options_;
  Keep keep_;
  int64_t rows_ = 0;
  // As long as all labels are numbers: whole ones until the first fraction, all from then on.
  std::vector<int64_t> wholes_;
  std::vector<double> numbers_;
  LabelCounts counts_;  // of whole numbers
  bool as_floats_ = false;
  int64_t fractions_ = 0;  // numbers that are not whole
  // The labels as names. Discarded once there are so many different texts that the labels can only be numbers.
  std::vector<int32_t> name_ids_;
  std::vector<int64_t> name_counts_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> names_;
  bool has_names_ = true;
  int64_t rounded_ = 0;          // number of numbers that f32 does not hold
  bool all_have_commas_ = true;  // all texts are numbers with a decimal comma
  Example text_, fraction_;
};

// Converts a label, a text that a LabelColumn has accepted as target before.
float parse_target(std::string_view text);

}  // namespace runner::data
