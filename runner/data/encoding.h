// What the training part fixed about reading data, applied to every later reading (eval, predict): the classes, the
// names, and the statistics behind normalisation and filled gaps.  Kept in states.  A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "schema/recipe.h"

namespace runner::data {

enum class LabelKind : uint8_t { kNone, kClass, kTarget };

struct Encoding {
  backends::Shape feature_shape;  // of one sample
  // Tokens of a sample of text, whose features and labels both are numbers of tokens, one label for each; 0: no text.
  int64_t sequence = 0;
  LabelKind label_kind = LabelKind::kNone;
  int64_t outputs = 0;                     // classes (largest label in train and eval + 1), or targets per sample
  std::vector<std::string> class_names;    // sorted, one per class; empty for integer labels
  std::vector<std::string> feature_names;  // csv with a header; else empty
  std::string label_name;                  // the same
  schema::Normalize normalize = schema::Normalize::kNone;
  // One per feature, of the scaled values of the training part; empty when not asked for.
  std::vector<double> center;  // standard: mean; minmax: smallest value
  std::vector<double> spread;  // standard: population standard deviation; minmax: range; 1 for a constant feature
  std::vector<double> fill;    // missing: mean: what stands for a missing value, before scale

  // Labels of a sample, where they are classes; a model gives `outputs` numbers for each.
  int64_t label_width() const { return sequence > 0 ? sequence : 1; }

  bool operator==(const Encoding&) const = default;
  // One JSON object; numbers survive the round trip exactly.
  std::string to_json() const;
  // Throws Error(kStore), which says what is wrong, when the text is not what to_json writes.
  static Encoding from_json(std::string_view text);
};

}  // namespace runner::data
