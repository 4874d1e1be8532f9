// Samples as read from a file: the features and labels. load() modifies a Storage while preparing it; afterwards it is
// shared and constant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/data/data_file.h"
#include "runner/data/encoding.h"
#include "runner/data/image_reading.h"
#include "runner/data/load.h"
#include "runner/data/sample_source.h"
#include "runner/data/synthetic.h"
#include "runner/data/token_file.h"
#include "runner/data/token_rows.h"
#include "schema/base/large_array.h"

namespace runner::data {

struct ReadOptions {
  LabelsAs labels = LabelsAs::kAuto;
  bool predicts = false;  // labels are not read, and rows that cannot be used stay (Storage::rejected)
  uint64_t seed = 0;      // synthetic: seed, and which section it is
  bool eval = false;
  bool has_recipe = true;  // whether the user can set keys of the recipe; eval and predict take none
  // CSV: columns of the training data, by name if there is a header; empty or 0 if unknown.
  std::vector<std::string> feature_names = {};
  std::string label_name = {};
  int64_t feature_count = 0;
  bool normalized = false;  // whether the data are normalised after reading (narrowing.h)
  // Before scaling: those of an earlier pass, or of the training data; empty: none yet.
  std::vector<double> offsets = {};
  const TextTokenizer* tokenizer = nullptr;  // of data.tokens; null without text columns
  std::optional<Masking> masking = {};       // of texts

  ImageReading images = {};  // of format images

  std::optional<int64_t> ignore_index = {};  // train.ignore_index

  // Without the tokenizer, which only reading uses.
  static auto parts(auto& self) {
    return std::tie(self.labels, self.predicts, self.seed, self.eval, self.has_recipe, self.feature_names,
                    self.label_name, self.feature_count, self.normalized, self.offsets, self.masking, self.images,
                    self.ignore_index);
  }

  // Whether the labels of rows are read.
  bool reads_labels() const { return !predicts && have_labels(labels); }
  // Returns the masker for the tokenizer; null without masking. Throws Error(kRecipe) as TextTokenizer::for_masking().
  std::shared_ptr<const TokenMasker> masker() const;
  // Returns the remedy for messages: `setting` of the recipe, or `change` of the file where no key can be set.
  std::string remedy(std::string_view setting, std::string_view change) const;
};

// Files whose samples are read in every epoch (stream.h).
struct StreamedSource {
  static constexpr int64_t kPlaceEvery = 1024;

  schema::DatasetSpec spec;
  ReadOptions options = {};
  int64_t shuffle_buffer = 1;  // size of the buffer in samples
  std::string contents = {};   // SHA-256 in hex: of the features and labels row by row, or of the tokens of a
                               // text
  // Position of every kPlaceEvery-th sample except the first; empty if the file is compressed.
  std::vector<SamplePlace> places = {};
  std::vector<float> fill = {};  // `missing: mean`: replacement of missing values, per feature

  // Without the section of the recipe.
  static auto parts(auto& self) {
    return std::tie(self.options, self.shuffle_buffer, self.contents, self.places, self.fill);
  }
};

// A tokenized text. Sample i consists of the tokens from i * stride on (text.h).
struct TokenText {
  LargeArray<uint32_t> ids;            // empty for a stream, and if the tokens are in a file
  int64_t stride = 0;                  // 0 if the data is no such text
  std::optional<TokenFile> file = {};  // with tokens: ids
  int64_t planned = 0;                 // tokens of a file that does not exist yet, read as 0

  // Without the file.
  static auto parts(auto& self) { return std::tie(self.ids, self.stride, self.planned); }
  // Writes the tokens from `at` on.
  void read(int64_t at, std::span<int64_t> out) const;
};

// An i64 input in addition to the features, such as an attention mask.
struct IdInput {
  SampleInput input;
  LargeArray<int64_t> ids;  // (samples, …)

  static auto parts(auto& self) { return std::tie(self.input, self.ids); }
};

struct RejectedRow {
  int64_t row = 0;  // from 0
  std::string reason;

  static auto parts(auto& self) { return std::tie(self.row, self.reason); }
};

// Number of rows by label, of at most kMaxLabels + 1 labels.
using LabelCounts = std::unordered_map<int64_t, int64_t>;

class ImageFiles;  // image_files.h
class LabelMap;    // labels.h

struct Storage {
  int64_t samples = 0;
  backends::Shape feature_shape;  // of one sample
  // The features are in exactly one of these members.
  LargeArray<float> values;    // (samples, …), scaled; NaN marks a missing value until it is filled
  LargeArray<uint8_t> bytes;   // (samples, …); scaled when read
  LargeArray<int32_t> tokens;  // (samples, T) ids of prepared arrays
  std::shared_ptr<const SampleSource> source;
  std::optional<StreamedSource> stream;                 // includes the labels
  TokenText text;                                       // includes the labels
  std::optional<TokenRows> rows;                        // texts of text columns or lines
  float scale = 1;                                      // factor for `bytes`
  std::vector<IdInput> more_inputs;                     // not of a stream
  std::shared_ptr<const TokenMasker> masker = nullptr;  // null without Encoding::masking

  std::shared_ptr<const Synthetic> rule = nullptr;          // of synthetic data: the source of features and labels
  std::shared_ptr<const ImageFiles> image_files = nullptr;  // of format images: the source, which can cut images

  int64_t vocabulary = 0, sequence = 0;  // as in Encoding
  LabelKind label_kind = LabelKind::kNone;
  // (samples, label_width): whole numbers as read, or positions in class_names; after encode_labels() the classes of
  // the encoding.
  LargeArray<int64_t> classes;
  LabelCounts label_counts;           // of the same labels
  LargeArray<float> targets;          // (samples, outputs)
  bool targets_are_features = false;  // then `targets` is empty
  // As in Encoding. If it is not kNone, `classes` contains the labels of prepared arrays; it is empty if the labels are
  // computed from the tokens.
  TokenLabels token_labels = TokenLabels::kNone;
  int64_t outputs = 0;                                  // number of classes, or of targets per sample
  std::shared_ptr<const LabelMap> label_map = nullptr;  // set by encode_labels()

  // With `missing: drop`: the sample that follows each dropped row, in their order.
  LargeArray<int64_t> dropped_before;
  int64_t filled_values = 0;         // with `missing: mean`; for a stream, the number of missing values
  std::vector<double> offsets = {};  // what each feature of `values` or `stream` was reduced by (narrowing.h); empty: 0
  std::vector<std::string> warnings = {};  // about the file
  std::string contents = {};               // what the files contain, for `plan`: "300 PNG; 12 grey"; may be empty
  std::vector<DataFile> files = {};        // with their stamps before they were read
  std::vector<RejectedRow> rejected = {};  // with `predicts`: rows whose features are set to 0, ascending

  std::vector<std::string> feature_names;  // names in the CSV header
  std::string label_name;                  // name in the CSV header
  std::vector<std::string> class_names;    // names among the labels, or characters of a text, sorted

  // Without `source`, and what `masker`, `rule`, `image_files` and `label_map` point to.
  static auto parts(auto& self) {
    return std::tie(self.samples, self.feature_shape, self.values, self.bytes, self.tokens, self.stream, self.text,
                    self.rows, self.scale, self.more_inputs, self.vocabulary, self.sequence, self.label_kind,
                    self.classes, self.label_counts, self.targets, self.targets_are_features, self.token_labels,
                    self.outputs, self.dropped_before, self.filled_values, self.offsets, self.warnings, self.contents,
                    self.files, self.rejected, self.feature_names, self.label_name, self.class_names);
  }

  int64_t width() const { return feature_shape.elements(); }
  // Whether the features are byte / 255 of images, from a source.
  bool has_image_source() const { return source && !rule; }
  // Whether the samples are windows of one text, which may overlap, rather than rows.
  bool is_windowed() const { return text.stride > 0; }
  // Uses tokens as labels: each token itself (kTokens), or the next one (kNextTokens).
  void use_tokens_as_labels(LabelsAs as);
  // For labels that are tokens: whether every token has one.
  bool is_every_token_labelled() const { return is_windowed() && !masker; }
  // The inputs in addition to the features or tokens.
  std::vector<SampleInput> further_inputs() const;
  // Distance from a token to its label.
  int64_t label_shift() const { return token_labels == TokenLabels::kNext ? 1 : 0; }
  // Number of class labels per sample.
  int64_t label_width() const { return sequence > 0 ? sequence : 1; }
  // Writes the features of a row before normalisation. `out`: (width) f32. Not for tokens.
  void read_row(int64_t row, std::span<float> out) const;
  // Writes the tokens of a row. `out`: (width) i64; for rows of texts, at least as long as the row.
  void read_tokens(int64_t row, std::span<int64_t> out) const;
  // Writes an input of further_inputs() of a row. `out`: as for the tokens, or of the shape of the input.
  void read_further(size_t input, int64_t row, std::span<int64_t> out) const;
  // Writes the classes of a row. `out`: (label_width) i64; for rows of texts, as for the tokens.
  void read_classes(int64_t row, std::span<int64_t> out) const;
};

// Why a number cannot be a feature.
inline constexpr const char* kIsNotFinite = "is not finite";
inline constexpr const char* kIsTooLarge = "is too large for f32, which ends at 3.4e38";

// Names a feature in messages: "column 'a'", or "feature 3" without a header.
std::string feature_text(const Storage& storage, size_t feature);

// A row whose feature cannot be used, because of `why`: with `predicts` it joins storage.rejected, and its features
// become 0. Otherwise throws Error(kData) naming `file`, row and feature.
void refuse_row(Storage& storage, bool predicts, int64_t row, size_t feature, const std::string& why,
                const std::string& file);

// Multiplies the features by the recipe's `scale` in f32; bytes when they are read. Refuses rows with a result that is
// not finite (refuse_row).
void scale_values(Storage& storage, std::optional<double> scale, bool predicts, const std::string& file);
// Scales one sample of a stream. Throws Error(kData) naming `file` if a result is not finite.
void scale_sample(const Storage& storage, std::span<float> features, int64_t sample, double scale,
                  const std::string& file);

}  // namespace runner::data
