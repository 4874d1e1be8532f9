// What a reader makes of a file: features and labels of all its samples.  Mutable while `load` prepares it, shared and
// constant from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/data/csv_lexer.h"
#include "runner/data/encoding.h"
#include "runner/data/load.h"
#include "runner/data/synthetic.h"
#include "schema/large_array.h"

namespace runner::data {

struct ReadOptions {
  LabelsAs labels = LabelsAs::kAuto;
  bool labels_required = true;
  uint64_t seed = 0;  // synthetic, and which section:
  bool eval = false;
  // csv: what is known already of the columns, by name where there is a header; empty and 0: not known.
  std::vector<std::string> feature_names = {};
  std::string label_name = {};
  int64_t feature_count = 0;
};

// A csv or text file whose samples stay in it, to be read anew in every epoch (stream.h).
struct StreamedFile {
  static constexpr int64_t kPlaceEvery = 1024;

  schema::DatasetSpec spec;
  ReadOptions options = {};
  int64_t shuffle_buffer = 1;         // samples
  int64_t bytes = 0, changed = 0;     // size, and time of the last change, when it was counted
  std::string contents = {};          // SHA-256, hex: of features and labels, row by row; of a text of its tokens
  std::vector<CsvPlace> places = {};  // of every kPlaceEvery-th sample but the first; empty: compressed
  std::vector<float> fill = {};       // missing: mean: what stands for a missing value, of each feature
};

// Samples of a text in memory: that number i is the tokens from i * stride on (text.h).
struct TokenText {
  std::vector<uint32_t> ids;
  int64_t stride = 1;
};

struct Storage {
  int64_t samples = 0;
  backends::Shape feature_shape;  // of one sample
  // One of these holds the features; the others are empty.
  LargeArray<float> values;   // (samples, …), scale applied; NaN: missing, until filled
  LargeArray<uint8_t> bytes;  // (samples, …), scale applied when read
  std::optional<Synthetic> rule;
  std::optional<StreamedFile> stream;  // the labels as well
  TokenText text;                      // the same
  float scale = 1;                     // of bytes

  int64_t sequence = 0;  // as Encoding has it
  LabelKind label_kind = LabelKind::kNone;
  LargeArray<int64_t> classes;  // (samples)
  LargeArray<float> targets;    // (samples, outputs)
  int64_t outputs = 0;          // largest class + 1, or targets per sample

  int64_t dropped_rows = 0;   // missing: drop
  int64_t filled_values = 0;  // missing: mean; of a stream until it has its fill: how many are missing

  std::vector<std::string> feature_names;  // csv with a header
  std::string label_name;                  // the same
  std::vector<std::string> class_names;    // sorted; class i of `classes` is class_names[i]

  int64_t width() const { return feature_shape.elements(); }
  // Labels of a sample, where they are classes.
  int64_t label_width() const { return sequence > 0 ? sequence : 1; }
  // Features of a row as floats, before normalisation; out: (width).
  void read_row(int64_t row, std::span<float> out) const;
  // Classes of a row; out: (label_width).
  void read_classes(int64_t row, std::span<int64_t> out) const;
};

// Multiplies the values by the recipe's `scale`, in f32.  Throws Error(kData) naming `file` when one becomes infinite.
void scale_values(Storage& storage, std::optional<double> scale, const std::string& file);
// The same for one sample.
void scale_sample(std::span<float> features, int64_t sample, double scale, const std::string& file);

// One reader per format.  Each throws Error(kData).
Storage read_csv(const schema::DatasetSpec& spec, const ReadOptions& options);
Storage read_safetensors(const schema::DatasetSpec& spec, const ReadOptions& options);
Storage read_synthetic(const schema::DatasetSpec& spec, const ReadOptions& options);

}  // namespace runner::data
