#include "runner/data/stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runner/data/data_format.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

const Storage& unchanged(const Storage& storage) {
  for (const DataFile& file : storage.files)
    if (stamp_of(file.path) != file.stamp) refuse_changed(*storage.stream);
  return storage;
}

std::unique_ptr<SampleReader> open_stream(const Storage& storage) {
  const StreamDef* const stream = definition_of(storage.stream->spec.format).stream;
  return stream->open(storage);
}

}  // namespace

void refuse_changed(const StreamedSource& source) {
  fail(ErrorKind::kRun, "{} has changed since its samples were counted; {}", main_path(source.spec),
       source.options.remedy("a stream reads the file again in every epoch: do not change it during the run, or set "
                             "data.stream to false",
                             "do not change the file while it is read"));
}

StreamedRows::StreamedRows(const Storage& storage) : storage_(unchanged(storage)), reader_(open_stream(storage)) {}

bool StreamedRows::advance(bool (SampleReader::*to_next)()) {
  const bool more = (*reader_.*to_next)();
  if (more) ++sample_;
  if (more ? sample_ == storage_.samples : sample_ + 1 != storage_.samples) refuse_changed(*storage_.stream);
  return more;
}

bool StreamedRows::next() {
  if (!advance(&SampleReader::next)) return false;
  const StreamedSource& source = *storage_.stream;
  features_.assign(reader_->features().begin(), reader_->features().end());
  if (source.spec.scale) scale_sample(storage_, features_, sample_, *source.spec.scale, main_path(source.spec));
  for (size_t i = 0; i < source.fill.size(); ++i) {
    if (std::isnan(features_[i])) features_[i] = source.fill[i];
  }
  return true;
}

bool StreamedRows::go_to(int64_t sample) {
  const int64_t place = sample / StreamedSource::kPlaceEvery, there = place * StreamedSource::kPlaceEvery;
  const std::vector<SamplePlace>& places = storage_.stream->places;
  if (place > 0 && place <= std::ssize(places) && there > sample_ + 1) {
    reader_->go_to(places[static_cast<size_t>(place - 1)], there);
    sample_ = there - 1;
  }
  while (sample_ + 1 < sample) {
    if (!advance(&SampleReader::skip)) return false;
  }
  return next();
}

StreamReader::StreamReader(const Dataset& dataset, uint64_t seed, bool shuffle, int64_t rank, int64_t kept)
    : dataset_(dataset),
      seed_(seed),
      buffer_size_(shuffle ? std::min(dataset.shuffle_buffer(), dataset.size()) : 1),
      rank_(rank),
      kept_count_(kept) {}

// Returns which samples the rank reads in an epoch, by number; an empty vector if it is the only rank.
std::vector<bool> StreamReader::samples_of_rank(const DataPlan& plan, int64_t epoch) const {
  if (plan.spec().processes == 1) return {};
  std::vector<bool> used(static_cast<size_t>(dataset_.size()));
  int64_t next = 0, position = 0, sample = 0;
  const auto number = [&](int64_t& item) {
    if (next == dataset_.size()) return false;
    item = next++;
    return true;
  };
  ShuffleBuffer<int64_t> buffer(buffer_size_, seed_, epoch, number);
  const auto pass = [&](int64_t until, bool of_rank) {
    for (; position < until; ++position) {
      buffer.take(sample, number);
      if (of_rank || position < kept_count_) used[static_cast<size_t>(sample)] = true;
    }
  };
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    const Slice slice = plan.slice(rank_, step);
    if (slice.real == 0) continue;
    pass(slice.begin, false);
    pass(slice.begin + slice.real, true);
  }
  pass(kept_count_, true);
  return used;
}

// Gives a sample the next number. Returns false after the last one.
bool StreamReader::number_next(Sample& sample) {
  if (next_ == dataset_.size()) return false;
  sample.id = next_++;
  return true;
}

void StreamReader::begin(const DataPlan& plan, int64_t epoch, int64_t position) {
  const auto number = [this](Sample& sample) { return number_next(sample); };
  next_ = 0;
  kept_.clear();
  used_ = samples_of_rank(plan, epoch);
  buffer_.emplace(buffer_size_, seed_, epoch, number);
  for (position_ = 0; position_ < position; ++position_) {
    buffer_->take(current_, number);
    if (position_ < kept_count_) kept_.push_back(current_);
  }
  epoch_ = epoch;

  std::vector<Sample*> numbered;
  for (Sample& sample : kept_) numbered.push_back(&sample);
  for (Sample& sample : buffer_->held())
    if (is_used(sample.id)) numbered.push_back(&sample);
  std::sort(numbered.begin(), numbered.end(), [](const Sample* a, const Sample* b) { return a->id < b->id; });
  rows_ = std::make_unique<StreamedRows>(dataset_.storage());
  for (Sample* const sample : numbered) {
    rows_->go_to(sample->id);
    load(*sample);
  }
}

// Loads the sample from the current row of rows_.
void StreamReader::load(Sample& sample) {
  sample.tokens.assign(rows_->tokens().begin(), rows_->tokens().end());
  sample.features = rows_->features();
  dataset_.normalize(sample.features);
  if (const auto bad = dataset_.overflow(sample.features))
    fail(ErrorKind::kData, "{}: sample {}, {}: {}", dataset_.source(), sample.id,
         feature_text(dataset_.storage(), *bad), dataset_.overflow_text(rows_->features()[*bad], *bad));
  const LabelKind kind = dataset_.label_kind();
  if (kind == LabelKind::kClass) rows_->read_classes(sample.classes);
  if (kind == LabelKind::kTarget && !dataset_.storage().targets_are_features) sample.target = rows_->target();
}

bool StreamReader::read_next(Sample& sample) {
  if (next_ < dataset_.size() && !is_used(next_)) return number_next(sample);
  if (!rows_->go_to(next_)) return false;  // which also checks where the file ends
  number_next(sample);
  load(sample);
  return true;
}

void StreamReader::advance() {
  const bool taken = buffer_->take(current_, [this](Sample& sample) { return read_next(sample); });
  RUN_ASSERT(taken);
  if (position_++ < kept_count_) kept_.push_back(current_);
}

void StreamReader::write(const Sample& sample, size_t row, const BatchRows& out) const {
  const auto copy = [&](std::span<const std::byte> values) {
    std::memcpy(out.inputs[0].data() + row * values.size(), values.data(), values.size());
  };
  out.ids[row] = sample.id;
  copy(sample.tokens.empty() ? std::as_bytes(std::span(sample.features)) : std::as_bytes(std::span(sample.tokens)));
  if (!out.classes.empty())
    std::copy(sample.classes.begin(), sample.classes.end(),
              out.classes.begin() + static_cast<ptrdiff_t>(row * sample.classes.size()));
  if (out.targets.empty()) return;
  if (dataset_.storage().targets_are_features) {
    std::ranges::copy(sample.features, out.targets.begin() + static_cast<ptrdiff_t>(row * sample.features.size()));
  } else {
    out.targets[row] = sample.target;
  }
}

void StreamReader::read(const DataPlan& plan, int64_t epoch, const Slice& slice, const BatchRows& out) {
  if (slice.size() == 0) return;
  if (epoch != epoch_ || (slice.real > 0 && slice.begin < position_))
    begin(plan, epoch, slice.real > 0 ? slice.begin : kept_count_);
  while (slice.real > 0 && position_ < slice.begin) advance();
  for (int64_t i = 0; i < slice.real; ++i) {
    advance();
    write(current_, static_cast<size_t>(i), out);
  }
  for (int64_t i = slice.real; i < slice.size(); ++i) {
    const auto repeated = static_cast<size_t>(slice.position(i));
    while (kept_.size() <= repeated) advance();
    write(kept_[repeated], static_cast<size_t>(i), out);
  }
}

int64_t repeated_from_start(const DataPlan& plan, int64_t rank) {
  if (plan.steps_per_epoch() == 0) return 0;
  const Slice last = plan.slice(rank, plan.steps_per_epoch() - 1);
  return last.repeats == 0 ? 0 : std::min(last.pool, last.repeat_from + last.repeats);
}

}  // namespace runner::data
