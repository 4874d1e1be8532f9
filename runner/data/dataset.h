// The samples of one section of a recipe (data.train, data.eval, or the part of a split): in memory, or a stream, whose
// samples stay in their file (stream.h).
//
// Invariants: a Dataset never changes after it was made; it may be read by any number of threads.  Sample i is row
// rows[i] of storage that the parts of a split share.  Storage holds values as read (f32, bytes of an image, or the
// rule of synthetic data); `scale` and normalisation are applied by gather, in f32: (value * scale - center) * (1 /
// spread).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/shape.h"
#include "runner/data/encoding.h"

namespace runner::data {

// Identifies contents, so that a resume on other data is refused with what changed.
struct Fingerprint {
  int64_t samples = 0;
  backends::Shape feature_shape;
  LabelKind label_kind = LabelKind::kNone;
  int64_t outputs = 0;   // classes, or targets per sample
  std::string contents;  // SHA-256, hex: of the stored features and labels in order; synthetic: of its parameters

  // "1437 samples, features (64), 10 classes, sha256 9f86…", and back: throws Error(kStore) for any other text.
  std::string to_string() const;
  static Fingerprint parse(std::string_view text);
  bool operator==(const Fingerprint&) const = default;
};

// What changed, most telling first: "1437 samples -> 1400", "features (64) -> (65)", "10 classes -> 9",
// "the contents differ"; empty when nothing did.
std::string difference(const Fingerprint& before, const Fingerprint& after);

struct Storage;  // storage.h

class Dataset {
 public:
  // Rows of `storage` seen through `encoding`; empty `rows`: all.  `name` ("data.train") is for messages.
  Dataset(std::string name, std::shared_ptr<const Storage> storage, std::vector<int32_t> rows,
          const Encoding& encoding);

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  // Shape of one sample: (64), (28, 28).
  const backends::Shape& feature_shape() const;
  LabelKind label_kind() const;
  // Classes (those of the encoding), or targets per sample; 0 without labels.
  int64_t outputs() const { return outputs_; }
  // Labels of a sample, where they are classes: 1, or one for each token of a text.
  int64_t label_width() const;

  // Of a stream: how many samples its shuffling draws from.  0: the samples are in memory.
  int64_t shuffle_buffer() const;

  // Writes the named samples, which are in memory, one after the other.  ids: (B); features: (B, elements of
  // feature_shape) f32, classes: (B * label_width) i64, targets: (B, outputs) f32.  Throws Error(kRun) for an id
  // outside [0, size()). No allocation.
  void gather_features(std::span<const int64_t> ids, std::span<float> features) const;
  void gather_classes(std::span<const int64_t> ids, std::span<int64_t> classes) const;
  void gather_targets(std::span<const int64_t> ids, std::span<float> targets) const;

  // What `missing` did when the file was read: "data.train: 3 of 150 rows were dropped: a value is missing".  The parts
  // of a split say so of the whole file.
  std::vector<std::string> warnings() const;

  // Cost: one pass over the contents, about 1 GB in a second; nothing for a stream.
  Fingerprint fingerprint() const;

  // For whoever reads samples by itself: what they are, and normalisation in place.  sample: (elements of
  // feature_shape).
  const Storage& storage() const { return *storage_; }
  void normalize(std::span<float> sample) const;

 private:
  int64_t row(int64_t id) const;

  std::string name_;
  std::shared_ptr<const Storage> storage_;
  std::vector<int32_t> rows_;  // empty: identity
  int64_t size_ = 0;
  int64_t outputs_ = 0;
  std::vector<float> center_;  // per feature, empty: no normalisation
  std::vector<float> factor_;  // 1 / spread
};

}  // namespace runner::data
