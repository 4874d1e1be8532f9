// How the training data was encoded: classes, names, and the statistics for normalisation and missing values. Every
// later data set (eval, predict) is read with the same encoding. Stored in checkpoints. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/data/image_reading.h"
#include "runner/data/inputs.h"
#include "runner/data/masking.h"
#include "runner/data/text_encoding.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

enum class LabelKind : uint8_t { kNone, kClass, kTarget };

// Labels that are tokens, one for each token of a sample. kNext: the token after it. kOwn: the token itself,
// before masking.
enum class TokenLabels : uint8_t { kNone, kNext, kOwn };

struct Encoding {
  backends::Shape feature_shape;         // of one sample
  int64_t vocabulary = 0;                // number of token ids if the features are tokens; 0 if they are numbers
  int64_t sequence = 0;                  // number of tokens per sample if each has a label; 0 if labels are per sample
  std::vector<SampleInput> more_inputs;  // in addition to the features, such as an attention mask; all i64
  std::optional<ImageReading> images = {};  // if the samples are files of images
  std::optional<TextEncoding> texts = {};   // if the samples are texts of text columns
  LabelKind label_kind = LabelKind::kNone;
  int64_t outputs = 0;                            // number of classes, or of targets per sample
  bool reconstructs = false;                      // the targets are the normalised features
  TokenLabels token_labels = TokenLabels::kNone;  // unless kNone, the classes are the vocabulary
  std::optional<Masking> masking = {};            // if some tokens are masked, and only they have a label
  // One per class, in its order; empty if the labels are 0 … outputs − 1.
  std::vector<std::string> class_names;
  std::vector<int64_t> class_values;  // labels of the classes, if they are numbers other than 0 … outputs − 1
  std::optional<int64_t> ignore_index = {};   // train.ignore_index
  std::optional<int64_t> ignored_label = {};  // what samples with that label have instead of a class
  std::vector<double> balanced_weights = {};  // by class, for train.class_weights: balanced
  std::vector<std::string> feature_names;     // names in the CSV header; otherwise empty
  std::string label_name;                     // as feature_names
  schema::Normalize normalize = schema::Normalize::kNone;
  // One value per feature, or per channel with Normalize::kChannels; computed from the scaled values of the training
  // part, or those of data.mean and data.std. Empty if not requested.
  std::vector<double> center;            // standard, channels: mean; min_max: minimum
  std::vector<double> center_rest = {};  // to add to centers above 2^53, which f64 rounds; empty: 0
  std::vector<double>
      spread;  // standard, channels: population standard deviation; min_max: range; 1 for a constant feature
  std::vector<double> fill;            // `missing: mean`: replacement of a missing value
  std::vector<double> fill_rest = {};  // as center_rest

  // All inputs of a model: the features or tokens, then more_inputs.
  std::vector<SampleInput> inputs() const;
  // Names or numbers of the classes, in their order; empty for targets.
  std::vector<std::string> classes() const;
  // Number of neighbouring features that share an entry of center and spread.
  size_t features_per_statistic() const {
    return center.empty() ? 1 : static_cast<size_t>(feature_shape.elements()) / center.size();
  }
  // Whether each feature is normalised by itself.
  bool normalizes_features() const {
    return normalize == schema::Normalize::kStandard || normalize == schema::Normalize::kMinMax;
  }
  // Whether the labels are names.
  bool has_names() const { return !class_names.empty() && class_values.empty(); }
  // Whether the features are token ids, which are i64, rather than numbers.
  bool has_tokens() const { return vocabulary > 0; }
  // Whether batches have different numbers of tokens per sample. Then that of feature_shape is the largest.
  bool has_lengths() const { return texts && texts->padding != schema::TokenPadding::kMaxLength; }
  // Whether each token of a sample has a label.
  bool has_token_labels() const { return sequence > 0; }
  bool predicts_tokens() const { return token_labels != TokenLabels::kNone; }
  // Number of class labels per sample of a batch of `length` tokens (BatchShape). The model computes `outputs` values
  // for each.
  int64_t label_width(int64_t length) const { return !has_token_labels() ? 1 : length > 0 ? length : sequence; }

  bool operator==(const Encoding&) const = default;
  // Returns a JSON object from which the numbers are read back exactly.
  std::string to_json() const;
  // Throws Error(kStore) describing the fault if `text` was not written by to_json().
  static Encoding from_json(std::string_view text);
};

}  // namespace runner::data
