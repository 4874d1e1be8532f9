// Reads CSV data sets into memory.
#include "runner/data/csv_rows.h"
#include "runner/data/storage.h"
#include "schema/base/error.h"

namespace runner::data {

Storage read_csv(const schema::DatasetSpec& spec, const ReadOptions& options) {
  CsvRows rows(spec, options);
  LabelColumn labels = rows.label_column(LabelColumn::Keep::kLabels);
  Storage storage;
  for (; rows.next(); ++storage.samples) {
    storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
    storage.values.insert(storage.values.end(), rows.features().begin(), rows.features().end());
    if (!rows.rejection().empty()) storage.rejected.push_back({storage.samples, rows.rejection()});
    if (rows.has_label()) labels.add(rows.label(), rows.line());
  }
  RUN_CHECK(storage.samples > 0, ErrorKind::kData, "{} has no complete row of data", spec.path);
  if (rows.has_label()) labels.finish(storage);
  storage.dropped_before.resize(static_cast<size_t>(rows.dropped()), storage.samples);
  rows.describe(storage);
  scale_values(storage, spec.scale, spec.path);
  return storage;
}

}  // namespace runner::data
