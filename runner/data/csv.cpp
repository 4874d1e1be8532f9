// CSV data sets: in memory, or as a stream.
#include <algorithm>
#include <cmath>

#include "runner/data/csv_rows.h"
#include "runner/data/data_format.h"
#include "runner/data/labels.h"
#include "runner/data/row_texts.h"
#include "runner/data/stream.h"
#include "schema/base/error.h"
#include "schema/base/sha256.h"

namespace runner::data {
namespace {

// Reads all rows into `storage`. Calls take() for each, with storage.samples being its number.
template <class Take>
void take_rows(CsvRows& rows, LabelColumn::Keep keep, Storage& storage, const std::string& file, const Take& take) {
  LabelColumn labels = rows.label_column(keep);
  const auto mark_dropped = [&] {
    storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
  };
  for (; rows.next(); ++storage.samples) {
    mark_dropped();
    take();
    if (rows.has_label()) labels.add(rows.label(), rows.line());
  }
  RUN_CHECK(storage.samples > 0, ErrorKind::kData, "{} has no complete row of data", file);
  if (rows.has_label()) labels.finish(storage);
  mark_dropped();
  rows.describe(storage);
}

Storage read_texts(const schema::DatasetSpec& spec, const ReadOptions& options) {
  CsvRows rows(spec, options);
  Storage storage;
  RowTexts texts(storage, options, spec.path);
  take_rows(rows, LabelColumn::Keep::kLabels, storage, spec.path,
            [&] { texts.add(rows.texts(), rows.line(), rows.rejection()); });
  texts.finish();
  return storage;
}

Storage read_csv(const schema::DatasetSpec& spec, const ReadOptions& options) {
  if (!spec.text_columns.empty()) return read_texts(spec, options);
  CsvRows rows(spec, options);
  Storage storage;
  take_rows(rows, LabelColumn::Keep::kLabels, storage, spec.path, [&] {
    storage.values.insert(storage.values.end(), rows.features().begin(), rows.features().end());
    if (!rows.rejection().empty()) storage.rejected.push_back({storage.samples, rows.rejection()});
  });
  scale_values(storage, spec.scale, options.predicts, spec.path);
  return storage;
}

Storage count_csv(const schema::DatasetSpec& spec, const ReadOptions& options) {
  Storage storage;
  StreamedSource& source = storage.stream.emplace(StreamedSource{.spec = spec, .options = options});
  CsvRows rows(source.spec, source.options);
  Sha256 contents;
  SamplePlace place;  // of the current row
  take_rows(rows, LabelColumn::Keep::kKind, storage, spec.path, [&] {
    if (storage.samples > 0 && storage.samples % StreamedSource::kPlaceEvery == 0 && rows.has_places())
      source.places.push_back(place);
    contents.update(std::as_bytes(rows.features())).update(rows.label()).update(std::string_view("\0", 1));
    storage.filled_values +=
        std::count_if(rows.features().begin(), rows.features().end(), [](float value) { return std::isnan(value); });
    place = rows.place();
  });
  source.options.offsets = rows.offsets();
  contents.update(std::as_bytes(std::span(source.options.offsets)));
  source.contents = hex(contents.finish());
  return storage;
}

class CsvReader final : public SampleReader {
 public:
  explicit CsvReader(const Storage& storage)
      : storage_(storage), rows_(storage.stream->spec, storage.stream->options) {}

  bool next() override {
    ++next_;
    return rows_.next();
  }
  bool skip() override { return rows_.skip(std::ssize(std::ranges::equal_range(storage_.dropped_before, next_++))); }
  void go_to(const SamplePlace& place, int64_t sample) override {
    next_ = sample;
    rows_.go_to(place, sample);
  }
  std::span<const float> features() const override { return rows_.features(); }
  float target() const override { return parse_target(rows_.label()); }
  void read_classes(std::vector<int64_t>& classes) const override {
    const std::optional<int64_t> found = storage_.label_map->find(rows_.label());
    if (!found) refuse_changed(*storage_.stream);
    classes = {*found};
  }

 private:
  const Storage& storage_;
  CsvRows rows_;
  int64_t next_ = 0;  // number of the sample that follows
};

constexpr StreamDef kCsvStream{.count = count_csv, .open = [](const Storage& storage) -> std::unique_ptr<SampleReader> {
                                 return std::make_unique<CsvReader>(storage);
                               }};

}  // namespace

const DataFormatDef kCsvFormat{.format = schema::DataFormat::kCsv,
                               .sources = kOnePath,
                               .read = read_csv,
                               .stream = &kCsvStream,
                               .sample_count = kNoSampleCount};
const DataFormatDef kTsvFormat{.format = schema::DataFormat::kTsv,
                               .sources = kOnePath,
                               .read = read_csv,
                               .stream = &kCsvStream,
                               .sample_count = kNoSampleCount};

}  // namespace runner::data
