#include "runner/data/stream.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runner/data/labels.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"

namespace runner::data {
namespace {

[[noreturn]] void refuse_other(const StreamedFile& file) {
  fail(ErrorKind::kRun,
       "{} has changed since its samples were counted; a stream reads the file again in every epoch: do not change it "
       "during the run, or set data.stream to false",
       file.spec.path);
}

// Returns `file`. Throws if the file on disk has changed since its samples were counted.
const StreamedFile& unchanged(const StreamedFile& file) {
  if (stamp_of(file.spec.path) != file.stamp) refuse_other(file);
  return file;
}

}  // namespace

StreamedFile stamped_file(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer) {
  return {spec, options, shuffle_buffer, stamp_of(spec.path)};
}

Storage count_csv(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer) {
  Storage storage;
  StreamedFile& file = storage.stream.emplace(stamped_file(spec, options, shuffle_buffer));
  CsvRows rows(file.spec, file.options);
  LabelColumn labels = rows.label_column(LabelColumn::Keep::kKind);
  Sha256 contents;
  for (CsvPlace place = rows.place(); rows.next(); place = rows.place()) {
    if (storage.samples > 0 && storage.samples % StreamedFile::kPlaceEvery == 0 && rows.has_places())
      file.places.push_back(place);
    storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
    ++storage.samples;
    contents.update(std::as_bytes(rows.features())).update(rows.label()).update(std::string_view("\0", 1));
    if (rows.has_label()) labels.add(rows.label(), rows.line());
    storage.filled_values +=
        std::count_if(rows.features().begin(), rows.features().end(), [](float value) { return std::isnan(value); });
  }
  RUN_CHECK(storage.samples > 0, ErrorKind::kData, "{} has no complete row of data", spec.path);
  if (rows.has_label()) labels.finish(storage);
  storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
  rows.describe(storage);
  file.options.offsets = rows.offsets();
  contents.update(std::as_bytes(std::span(file.options.offsets)));
  file.contents = hex(contents.finish());
  return storage;
}

StreamedRows::StreamedRows(const Storage& storage) : storage_(storage) {
  const StreamedFile& file = unchanged(*storage.stream);
  if (storage.sequence > 0) {
    text_.emplace(file.spec, numbers_.emplace(storage.class_names));
  } else {
    rows_.emplace(file.spec, file.options);
    features_.resize(static_cast<size_t>(storage.width()));
  }
}

// Reads the next sample, without scaling and filling it.
bool StreamedRows::read() {
  if (rows_ && !rows_->next()) return false;
  if (rows_) return std::copy(rows_->features().begin(), rows_->features().end(), features_.begin()), true;
  if (!text_->next()) return false;
  const std::vector<int64_t>& tokens = text_->tokens();
  if (std::find(tokens.begin(), tokens.end(), -1) != tokens.end()) refuse_other(*storage_.stream);
  return true;
}

std::span<const int64_t> StreamedRows::tokens() const {
  return std::span(text_->tokens()).first(text_->tokens().size() - 1);
}

void StreamedRows::read_classes(std::vector<int64_t>& classes) const {
  if (rows_) {
    const std::optional<int64_t> found = storage_.label_map->find(rows_->label());
    if (!found) refuse_other(*storage_.stream);
    classes = {*found};
  } else {
    classes.assign(text_->tokens().begin() + 1, text_->tokens().end());
  }
}

float StreamedRows::target() const {
  return parse_target(rows_->label());
}

bool StreamedRows::next() {
  const StreamedFile& file = *storage_.stream;
  if (!read()) {
    if (sample_ + 1 != storage_.samples) refuse_other(file);
    return false;
  }
  if (++sample_ == storage_.samples) refuse_other(file);
  if (file.spec.scale) scale_sample(features_, sample_, *file.spec.scale, file.spec.path);
  for (size_t i = 0; i < file.fill.size(); ++i) {
    if (std::isnan(features_[i])) features_[i] = file.fill[i];
  }
  return true;
}

bool StreamedRows::go_to(int64_t sample) {
  const int64_t place = sample / StreamedFile::kPlaceEvery, there = place * StreamedFile::kPlaceEvery;
  const std::vector<CsvPlace>& places = storage_.stream->places;
  if (place > 0 && place <= std::ssize(places) && there > sample_ + 1) {
    go_to(places[static_cast<size_t>(place - 1)], there);
  }
  while (sample_ < sample) {
    if (!next()) return false;
  }
  return true;
}

void StreamedRows::go_to(const CsvPlace& place, int64_t sample) {
  rows_ ? rows_->go_to(place, sample) : text_->go_to(place.byte);
  sample_ = sample - 1;
}

StreamReader::StreamReader(const Dataset& dataset, uint64_t seed, bool shuffle, int64_t kept)
    : dataset_(dataset),
      seed_(seed),
      buffer_size_(shuffle ? std::min(dataset.shuffle_buffer(), dataset.size()) : 1),
      kept_count_(kept) {}

void StreamReader::begin(int64_t epoch, int64_t position) {
  const auto number = [this](Sample& sample) {
    if (next_ == dataset_.size()) return false;
    sample.id = next_++;
    return true;
  };
  next_ = 0;
  kept_.clear();
  buffer_.emplace(buffer_size_, seed_, epoch, number);
  for (position_ = 0; position_ < position; ++position_) {
    buffer_->take(current_, number);
    if (position_ < kept_count_) kept_.push_back(current_);
  }
  epoch_ = epoch;

  std::vector<Sample*> numbered;
  for (Sample& sample : kept_) numbered.push_back(&sample);
  for (Sample& sample : buffer_->held()) numbered.push_back(&sample);
  std::sort(numbered.begin(), numbered.end(), [](const Sample* a, const Sample* b) { return a->id < b->id; });
  rows_ = std::make_unique<StreamedRows>(dataset_.storage());
  for (Sample* const sample : numbered) {
    rows_->go_to(sample->id);
    load(*sample);
  }
}

// Loads the sample from the current row of rows_.
void StreamReader::load(Sample& sample) {
  if (dataset_.storage().sequence > 0) {
    sample.tokens.assign(rows_->tokens().begin(), rows_->tokens().end());
  } else {
    sample.features = rows_->features();
    dataset_.normalize(sample.features);
  }
  const LabelKind kind = dataset_.label_kind();
  if (kind == LabelKind::kClass) rows_->read_classes(sample.classes);
  if (kind == LabelKind::kTarget && !dataset_.storage().targets_are_features) sample.target = rows_->target();
}

bool StreamReader::read_next(Sample& sample) {
  if (!rows_->go_to(next_)) return false;
  sample.id = next_++;
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

void StreamReader::read(int64_t epoch, const Slice& slice, const BatchRows& out) {
  if (slice.size() == 0) return;
  if (epoch != epoch_ || (slice.real > 0 && slice.begin < position_))
    begin(epoch, slice.real > 0 ? slice.begin : kept_count_);
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
