// Which classes a data set has: from the labels in its files to classes 0…K−1.
//
// A label in a file is a whole number or a name. The classes are those of data.classes. Without it, they are the labels
// that occur in the training or the evaluation data, numbers in ascending and names in alphabetical order, without
// train.ignore_index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/data/storage.h"

namespace runner::data {

// Reading stops counting with this number of different labels.
inline constexpr size_t kMaxLabels = 65536;

// Whole numbers in a label column or array, for are_classes().
struct WholeNumbers {
  const LabelCounts& counts;
  int64_t rows = 0;
  bool as_floats = false;  // such as 1.0, or from an array of floats
};

// Decides whether whole numbers are classes or targets. `where`: the file and column for messages. Throws Error(kData)
// if nothing says which, and there are so many different ones that it is doubtful.
bool are_classes(const ReadOptions& options, const WholeNumbers& labels, const std::string& where);

// If whole numbers are classes but for a few fractions, returns why these are refused; else nothing. `labels`: its rows
// include the fractions.
std::optional<std::string> why_no_class(int64_t fractions, const WholeNumbers& labels);

// The classes of an Encoding. Constant after construction, thread-safe.
class LabelMap {
 public:
  explicit LabelMap(const Encoding& encoding);

  // Return the class of a label in a file, Encoding::ignored_label for train.ignore_index, or none if it is no class.
  std::optional<int64_t> find(int64_t number) const;
  std::optional<int64_t> find(std::string_view text) const;
  // The classes for messages: "0 to 9", "1, 2, 3, 4, 5", "ham, spam".
  std::string list() const { return list_; }

 private:
  bool has_names_;
  int64_t classes_;
  std::optional<int64_t> ignore_index_, ignored_label_;
  std::unordered_map<std::string, int64_t> names_;
  std::unordered_map<int64_t, int64_t> numbers_;  // empty: class n is the number n
  std::string list_;
};

// Finds the classes of the training data and of evaluation data (null: none, or the same storage), sets them in the
// encoding and replaces the labels of both. `declared`: data.classes. `known`: encoding whose classes are kept if they
// include all labels and are those declared, or null. Throws Error(kData) if a label is not declared, if names differ
// only by spelling, or if synthetic labels do not fit those of a file; Error(kRecipe) if classes are declared and the
// labels are no classes.
void encode_labels(Encoding& encoding, Storage& train, Storage* eval, std::optional<int64_t> ignore_index,
                   std::span<const std::string> declared = {}, const Encoding* known = nullptr);
// Replaces labels of other data by the classes of the encoding. `name`: of the data, for messages; `remedy`: appended
// to the message. Throws Error(kData) for a label that is no class.
void use_classes(Storage& storage, const Encoding& encoding, const std::string& name, std::string_view remedy = {});

// Returns the number of samples of each class. `rows`: those that count; empty: all.
std::vector<int64_t> class_counts(const Storage& storage, const Encoding& encoding, std::span<const int32_t> rows);
// Returns warnings about labels that may be damaged, misspelt or of the wrong column.
std::vector<std::string> label_warnings(const Encoding& encoding, const Storage& train);
// Throws Error(kData) if two files have no class in common, so that no metric measures what the model learns. The
// counts are those of class_counts().
void check_common_classes(const Encoding& encoding, const std::vector<int64_t>& train,
                          const std::vector<int64_t>& eval);
// Returns warnings about classes that only one of the two parts has. `is_split`: whether data.split made them.
std::vector<std::string> class_warnings(const Encoding& encoding, const std::vector<int64_t>& train,
                                        const std::vector<int64_t>& eval, bool is_split);
// Returns a warning about classes of data.classes without a sample; none if each has one.
std::optional<std::string> declared_class_warning(const Encoding& encoding, const std::vector<int64_t>& train);

// Weights by class as class_weight="balanced" of scikit-learn: N / (K * count), of the N samples of the K classes that
// occur. A class without samples has weight 0.
std::vector<double> balanced_weights(const std::vector<int64_t>& counts);

// Returns the classes for messages: "0 to 9", "1, 2, 3, 4, 5", "'ham', 'spam'". A long list is cut.
std::string class_list(const Encoding& encoding);
// Returns "3 classes: ham, spam, eggs", "10 classes: 0 to 9", "1 target". A long list is cut.
std::string labels_text(const Encoding& encoding);

}  // namespace runner::data
