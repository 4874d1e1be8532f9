// Samples that stay in their csv or text file: counted once, then read in turn, through a buffer that shuffles them.
//
// The position of every sample in an epoch is that of an Order with the same seed and buffer, so that a plan of a
// stream is a plan like any other.  Memory: the buffer, the samples that may be repeated, and a window of the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runner/data/csv_rows.h"
#include "runner/data/dataset.h"
#include "runner/data/order.h"
#include "runner/data/plan.h"
#include "runner/data/storage.h"
#include "runner/data/text.h"

namespace runner::data {

// Reads the file once and keeps what it is: how many samples, their labels' kind, what is missing, a digest.
// Throws Error(kData) as read_csv does.
Storage count_csv(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer);

// A file to be counted, as it is now.
StreamedFile stamped_file(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer);

// The file's samples in its order, once through.  Throws Error(kRun) when it is not the file that was counted.
class StreamedRows {
 public:
  explicit StreamedRows(const Storage& storage);

  // To the next sample, or to a later one; false at the end.
  bool next();
  bool go_to(int64_t sample);
  int64_t sample() const { return sample_; }                        // from 0
  const std::vector<float>& features() const { return features_; }  // scaled and filled, not normalised
  // The labels: classes (label_width), which those of a csv file are named by, or a target.
  void read_classes(std::vector<int64_t>& classes) const;
  float target() const;

 private:
  bool read();
  void go_to(const CsvPlace& place, int64_t sample);

  const Storage& storage_;
  std::optional<CsvRows> rows_;
  std::optional<TokenNumbers> numbers_;
  std::optional<TextSamples> text_;  // instead of rows
  int64_t sample_ = -1;
  std::vector<float> features_;
};

// Where the samples of a batch go, one after the other: ids (B), features (B, …), and one of classes (B, label_width)
// and targets (B) where there are labels.
struct BatchRows {
  std::span<int64_t> ids;
  std::span<float> features;
  std::span<int64_t> classes = {};
  std::span<float> targets = {};
};

// One reader's way through the epochs of a stream.
class StreamReader {
 public:
  // kept: samples from the start of an epoch that are repeated at its end.  The data set must outlive the reader.
  StreamReader(const Dataset& dataset, uint64_t seed, bool shuffle, int64_t kept);

  // Writes the samples of a slice of an epoch.  Behind the slice before, it reads what lies between.  Elsewhere it
  // draws up to the slice without reading, and reads what the buffer holds there; a compressed file it reads from its
  // start.
  void read(int64_t epoch, const Slice& slice, const BatchRows& out);

 private:
  struct Sample {
    int64_t id = 0;
    std::vector<float> features;
    std::vector<int64_t> classes;
    float target = 0;
  };

  void begin(int64_t epoch, int64_t position);
  void load(Sample& sample);
  bool read_next(Sample& sample);
  void advance();
  static void write(const Sample& sample, size_t row, const BatchRows& out);

  const Dataset& dataset_;
  const uint64_t seed_;
  const int64_t buffer_size_, kept_count_;
  int64_t epoch_ = -1;
  int64_t position_ = 0;  // of the sample that advance() takes next
  int64_t next_ = 0;      // the sample that moves into the buffer next
  std::unique_ptr<StreamedRows> rows_;
  std::optional<ShuffleBuffer<Sample>> buffer_;
  Sample current_;
  std::vector<Sample> kept_;
};

// The samples from the start of an epoch that a replica repeats at the end of the plan's.
int64_t repeated_from_start(const DataPlan& plan, int64_t replica);

}  // namespace runner::data
