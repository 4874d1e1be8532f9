// The samples of one data section of a recipe (data.train, data.eval, or one part of a split). They are in memory, or a
// stream that reads them from their file (stream.h).
//
// Immutable, and therefore thread-safe. Sample i is row rows[i] of the storage, which both parts of a split share. The
// storage contains values as read (f32, bytes of images, or a source that computes them). The gather functions apply
// `scale` and normalisation in f32: (value * scale - center) * (1 / spread).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/data/encoding.h"
#include "schema/base/large_array.h"
#include "schema/base/parts.h"

namespace runner::data {

// Identifies the contents of a data set, so that resuming with different data is rejected with an explanation.
struct Fingerprint {
  int64_t samples = 0;
  backends::Shape feature_shape;
  LabelKind label_kind = LabelKind::kNone;
  int64_t outputs = 0;   // number of classes, or of targets per sample
  std::string contents;  // SHA-256 in hex of the stored features and labels in order; for synthetic data, of its
                         // parameters

  // Format: "1437 samples, features (64), 10 classes, sha256 9f86…". parse() throws Error(kStore) for any other text.
  std::string to_string() const;
  static Fingerprint parse(std::string_view text);
  bool operator==(const Fingerprint&) const = default;
};

// Describes the differences: "1437 samples -> 1400", "features (64) -> (65)", "10 classes -> 9". Returns "the contents
// differ" if only the contents do, and an empty text if the fingerprints are equal.
std::string difference(const Fingerprint& before, const Fingerprint& after);

struct Storage;   // storage.h
struct ImageCut;  // image_cut.h

class Dataset {
 public:
  // `name`: section name for messages ("data.train"). `rows`: rows of `storage`; empty: all rows. `encoding`: classes
  // and normalisation.
  Dataset(std::string name, std::shared_ptr<const Storage> storage, LargeArray<int32_t> rows, const Encoding& encoding);

  const std::string& name() const { return name_; }
  // File of the features for messages; the section's name if there is none.
  const std::string& source() const;
  int64_t size() const { return size_; }
  // Shape of one sample, such as (64) or (28, 28).
  const backends::Shape& feature_shape() const;
  // Contents of a batch for the model, as in Encoding.
  std::span<const SampleInput> inputs() const { return inputs_; }
  LabelKind label_kind() const;
  // Number of classes (as in the encoding) or of targets per sample; 0 without labels.
  int64_t outputs() const { return outputs_; }
  // Whether batches have different numbers of tokens per sample (Encoding::has_lengths()), and then: the tokens of a
  // sample, and those of each sample of a batch whose longest has `longest`.
  bool has_lengths() const { return padding_ != schema::TokenPadding::kMaxLength; }
  int64_t length_of(int64_t id) const;
  int64_t padded_length(int64_t longest) const;
  // Number of class labels per sample: 1, or one per token of a text.
  int64_t label_width() const;

  // Size of the shuffle buffer of a stream; 0 if the samples are in memory.
  int64_t shuffle_buffer() const;

  // Write the samples `ids` (B) contiguously: features: (B, elements of feature_shape) f32; tokens: (B, elements) i64,
  // of a text; classes: (B, label_width) i64; targets: (B, outputs) f32. gather_input() writes any of inputs(). If the
  // data set has lengths, inputs and labels of tokens are (B, T) i64 for any T that is not less than the length of a
  // sample. Only for data sets in memory. Throw Error(kRun) for an id outside [0, size()). No allocation.
  // gather_features() is read_features(), the features of one sample as stored, and normalize(). read_cut() reads a
  // random part of an image instead (ImageFiles::read_cut()); only with Storage::image_files.
  void read_features(int64_t id, std::span<float> features) const;
  void read_cut(int64_t id, const ImageCut& cut, RandomSequence& random, std::span<float> features) const;
  void gather_features(std::span<const int64_t> ids, std::span<float> features) const;
  void gather_tokens(std::span<const int64_t> ids, std::span<int64_t> tokens) const;
  void gather_input(size_t input, std::span<const int64_t> ids, std::span<std::byte> values) const;
  void gather_classes(std::span<const int64_t> ids, std::span<int64_t> classes) const;  // as if nothing was masked
  void gather_targets(std::span<const int64_t> ids, std::span<float> targets) const;

  bool is_masked() const;
  // Masks the tokens of samples, if is_masked() (masking.h). `tokens`, `labels`: (B, T), as gathered.
  void mask(const SampleKey& key, std::span<const int64_t> ids, std::span<int64_t> tokens,
            std::span<int64_t> labels) const;

  // Returns the row of the storage that sample `id` is. Throws Error(kRun) for an id outside [0, size()).
  int64_t row(int64_t id) const;
  // Returns the row of the file, from 0, that sample `id` is: a header does not count, dropped rows do. For a text, the
  // number of the sample.
  int64_t file_row(int64_t id) const;

  // Returns `count` of the samples, at equal distances and in order; all if there are fewer. The fingerprint stays that
  // of all. Only for data sets in memory.
  Dataset thinned(int64_t count) const;

  // Counts the samples, or tokens of a text, of each class except the label `ignored`. Cost: one pass, which reads the
  // file of a stream.
  std::vector<int64_t> count_classes(std::optional<int64_t> ignored) const;

  // Reports the effect of `missing` on reading: "data.train: 3 of 150 rows were dropped: a value is missing". Each part
  // of a split reports the whole file.
  std::vector<std::string> warnings() const;

  // Cost: one pass over the contents, about 1 GB/s; a stream has computed it already.
  Fingerprint fingerprint() const;

  // For readers that do not use the gather functions: the storage, and in-place normalisation. `sample`: (elements of
  // feature_shape).
  const Storage& storage() const { return *storage_; }
  const std::shared_ptr<const Storage>& shared_storage() const { return storage_; }
  // Returns this data set with its samples in another place.
  Dataset with_storage(std::shared_ptr<const Storage> storage) &&;
  void normalize(std::span<float> sample) const;
  // Returns the first feature of a normalised sample that is not finite; none if all are.
  std::optional<size_t> overflow(std::span<const float> normalized) const;
  // Says that a feature of a sample, before normalisation, is too large after it.
  std::string overflow_text(float value, size_t feature) const;

 private:
  friend class runner::PartsAccess;

  Dataset() = default;
  // Without the storage.
  static auto parts(auto& self) {
    return std::tie(self.name_, self.rows_, self.size_, self.all_, self.outputs_, self.inputs_, self.padding_,
                    self.center_, self.factor_);
  }

  std::string name_;
  std::shared_ptr<const Storage> storage_;
  LargeArray<int32_t> rows_;  // empty: identity
  int64_t size_ = 0;
  int64_t all_ = 0;  // number of samples before thinned()
  int64_t outputs_ = 0;
  std::vector<SampleInput> inputs_;
  schema::TokenPadding padding_ = schema::TokenPadding::kMaxLength;
  std::vector<float> center_;  // per feature; empty without normalisation
  std::vector<float> factor_;  // 1 / spread
};

}  // namespace runner::data
