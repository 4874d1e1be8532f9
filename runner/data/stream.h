// Streams samples: counts them once, then reads them in every epoch through a shuffle buffer.
//
// Samples have the same positions in an epoch as in an Order with the same seed and buffer size, so a data plan applies
// unchanged. Memory: the buffer, the samples that may be repeated as padding, a window of the file, and with several
// ranks a bit for each sample.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runner/data/dataset.h"
#include "runner/data/inputs.h"
#include "runner/data/order.h"
#include "runner/data/plan.h"
#include "runner/data/storage.h"

namespace runner::data {

// Reads the samples of a streamed source once, in its order, as they are in the files. Implemented by each format that
// can be streamed.
class SampleReader {
 public:
  virtual ~SampleReader() = default;

  // Advances to the next sample. Returns false at the end.
  virtual bool next() = 0;
  // As next(), for a sample that is not used.
  virtual bool skip() { return next(); }
  // Continues with a sample that starts at one of StreamedSource::places.
  virtual void go_to(const SamplePlace& place, int64_t sample) = 0;

  // The current sample: its features, neither scaled nor filled, or its tokens.
  virtual std::span<const float> features() const { return {}; }
  virtual std::span<const int64_t> tokens() const { return {}; }
  // Its labels: (label_width) classes, numbered by class_names if they are names, or a target.
  virtual void read_classes(std::vector<int64_t>& classes) const = 0;
  virtual float target() const { return 0; }
};

// Throws Error(kRun): the source has changed since its samples were counted.
[[noreturn]] void refuse_changed(const StreamedSource& source);

// Reads the samples of a stream once, in their order. Throws Error(kRun) if the source has changed since they were
// counted.
class StreamedRows {
 public:
  explicit StreamedRows(const Storage& storage);

  // Advance to the next sample, or to a later one. Return false at the end. Samples in between are not parsed.
  bool next();
  bool go_to(int64_t sample);
  int64_t sample() const { return sample_; }                        // number of the current sample, from 0
  const std::vector<float>& features() const { return features_; }  // scaled and filled, not normalised; empty for text
  std::span<const int64_t> tokens() const { return reader_->tokens(); }  // of a text
  // Labels of the current sample, as in SampleReader.
  void read_classes(std::vector<int64_t>& classes) const { reader_->read_classes(classes); }
  float target() const { return reader_->target(); }

 private:
  bool advance(bool (SampleReader::*to_next)());

  const Storage& storage_;
  std::unique_ptr<SampleReader> reader_;
  int64_t sample_ = -1;
  std::vector<float> features_;
};

// Memory for the samples of a batch: ids (B), each input of the data set (B, …), and with labels either classes
// (B, label_width) or targets (B).
struct BatchRows {
  std::span<int64_t> ids;
  std::array<std::span<std::byte>, kMaxInputs> inputs;
  std::span<int64_t> classes = {};
  std::span<float> targets = {};
};

// Reads the epochs of a stream for the loader of one rank. Samples of other ranks pass through the shuffle buffer as
// numbers only: they are neither parsed nor kept.
class StreamReader {
 public:
  // `kept`: number of samples at the start of an epoch that are repeated as padding at its end. The data set must
  // outlive the reader.
  StreamReader(const Dataset& dataset, uint64_t seed, bool shuffle, int64_t rank, int64_t kept);

  // Writes the samples of a slice of an epoch, one of those of the rank in `plan`, which is the plan of the epoch. If
  // the slice follows the previous one, continues there. Otherwise replays the draws of the shuffle buffer up to the
  // slice without reading, and then loads the samples that the buffer holds there. A compressed file is read from its
  // start.
  void read(const DataPlan& plan, int64_t epoch, const Slice& slice, const BatchRows& out);

 private:
  struct Sample {
    int64_t id = 0;
    std::vector<float> features;
    std::vector<int64_t> tokens;  // instead of features, of a text
    std::vector<int64_t> classes;
    float target = 0;
  };

  void begin(const DataPlan& plan, int64_t epoch, int64_t position);
  std::vector<bool> samples_of_rank(const DataPlan& plan, int64_t epoch) const;
  bool is_used(int64_t sample) const { return used_.empty() || used_[static_cast<size_t>(sample)]; }
  bool number_next(Sample& sample);
  void load(Sample& sample);
  bool read_next(Sample& sample);
  void advance();
  void write(const Sample& sample, size_t row, const BatchRows& out) const;

  const Dataset& dataset_;
  const uint64_t seed_;
  const int64_t buffer_size_, rank_, kept_count_;
  int64_t epoch_ = -1;
  int64_t position_ = 0;    // position of the sample that advance() takes next
  int64_t next_ = 0;        // number of the sample that enters the buffer next
  std::vector<bool> used_;  // by sample: whether the rank reads it in this epoch; empty: all
  std::unique_ptr<StreamedRows> rows_;
  std::optional<ShuffleBuffer<Sample>> buffer_;
  Sample current_;
  std::vector<Sample> kept_;
};

// Returns how many samples from the start of an epoch the rank repeats as padding at its end.
int64_t repeated_from_start(const DataPlan& plan, int64_t rank);

}  // namespace runner::data
