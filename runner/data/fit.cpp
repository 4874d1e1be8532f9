#include "runner/data/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runner/data/stream.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

// Calls visit(i, features) for each of `rows`; empty: all rows. The features are less storage.offsets.
template <class Visit>
void each_row(const Storage& storage, std::span<const int32_t> rows, Visit visit) {
  if (storage.stream) {
    for (StreamedRows streamed(storage); streamed.next();) visit(streamed.sample(), streamed.features());
    return;
  }
  std::vector<float> row(static_cast<size_t>(storage.width()));
  const int64_t count = rows.empty() ? storage.samples : static_cast<int64_t>(rows.size());
  for (int64_t i = 0; i < count; ++i) {
    storage.read_row(rows.empty() ? i : rows[static_cast<size_t>(i)], row);
    visit(i, row);
  }
}

void fit_standard(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows) {
  std::vector<double>& mean = encoding.center;
  std::vector<double>& deviation = encoding.spread;
  double count = 0;
  std::vector<double> first;
  each_row(storage, rows, [&](int64_t i, const std::vector<float>& row) {
    if (i == 0) first.assign(row.begin(), row.end());
    for (size_t f = 0; f < row.size(); ++f) mean[f] += double{row[f]} - first[f];
    ++count;
  });
  for (size_t f = 0; f < mean.size(); ++f) mean[f] = first[f] + mean[f] / count;
  each_row(storage, rows, [&](int64_t, const std::vector<float>& row) {
    for (size_t f = 0; f < row.size(); ++f) deviation[f] += (double{row[f]} - mean[f]) * (double{row[f]} - mean[f]);
  });
  for (double& value : deviation) value = std::sqrt(value / count);
}

void fit_min_max(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows) {
  std::vector<double>& least = encoding.center;
  std::vector<double> most;
  each_row(storage, rows, [&](int64_t i, const std::vector<float>& row) {
    if (i == 0) {
      least.assign(row.begin(), row.end());
      most = least;
    }
    for (size_t f = 0; f < row.size(); ++f) {
      least[f] = std::min(least[f], double{row[f]});
      most[f] = std::max(most[f], double{row[f]});
    }
  });
  for (size_t f = 0; f < most.size(); ++f) encoding.spread[f] = most[f] - least[f];
}

// Makes statistics that are less storage.offsets absolute. f64 rounds sums above 2^53: returns the parts that they
// lose; empty: none.
std::vector<double> add_offsets(std::vector<double>& values, const Storage& storage) {
  if (storage.offsets.empty()) return {};
  const std::vector<double> relative = values;
  for (size_t f = 0; f < values.size(); ++f) values[f] += storage.offsets[f];
  const auto is_rounded = [](double value) { return std::fabs(value) > 0x1p53; };
  if (std::ranges::none_of(values, is_rounded)) return {};
  std::vector<double> rest(values.size());
  for (size_t f = 0; f < values.size(); ++f)
    if (is_rounded(values[f])) rest[f] = relative[f] - (values[f] - storage.offsets[f]);
  return rest;
}

}  // namespace

void fit_fill(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, const std::string& file,
              const ReadOptions& options) {
  const auto width = static_cast<size_t>(storage.width());
  std::vector<double> sum(width), count(width);
  each_row(storage, rows, [&](int64_t, const std::vector<float>& row) {
    for (size_t f = 0; f < width; ++f) {
      if (std::isnan(row[f])) continue;
      sum[f] += double{row[f]};
      ++count[f];
    }
  });
  encoding.fill.resize(width);
  for (size_t f = 0; f < width; ++f) {
    RUN_CHECK(count[f] > 0, ErrorKind::kData,
              "{}: {} has no values in the training part, so it has no mean to fill in; {}", file,
              feature_text(storage, f), options.remedy("remove it from features", "restore the training data"));
    encoding.fill[f] = sum[f] / count[f];
  }
  encoding.fill_rest = add_offsets(encoding.fill, storage);
}

void fill_missing(Storage& storage, const Encoding& encoding, const std::string& name) {
  std::vector<double> fill = encoding.fill;
  for (size_t f = 0; f < std::min(fill.size(), storage.offsets.size()); ++f) {
    fill[f] -= storage.offsets[f];
    if (!encoding.fill_rest.empty()) fill[f] += encoding.fill_rest[f];
  }
  if (storage.stream) {
    storage.stream->fill.assign(fill.begin(), fill.end());
    return;
  }
  const auto width = static_cast<size_t>(storage.width());
  for (size_t i = 0; i < storage.values.size(); ++i) {
    if (!std::isnan(storage.values[i])) continue;
    RUN_CHECK(!fill.empty(), ErrorKind::kData,
              "{}: {} of sample {} is missing, but the training data was not read with missing: mean", name,
              feature_text(storage, i % width), i / width);
    storage.values[i] = static_cast<float>(fill[i % width]);
    ++storage.filled_values;
  }
}

void fit_normalization(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows,
                       const ReadOptions& options) {
  if (encoding.normalize == schema::Normalize::kNone) return;
  encoding.center.assign(static_cast<size_t>(storage.width()), 0);
  encoding.spread.assign(static_cast<size_t>(storage.width()), 0);
  if (encoding.normalize == schema::Normalize::kStandard) {
    fit_standard(encoding, storage, rows);
  } else {
    fit_min_max(encoding, storage, rows);
  }
  encoding.center_rest = add_offsets(encoding.center, storage);
  for (size_t f = 0; f < encoding.spread.size(); ++f) {
    double& spread = encoding.spread[f];
    RUN_CHECK(std::isfinite(static_cast<float>(spread)), ErrorKind::kData,
              "data.train: the values of {} differ by more than f32 holds; {}", feature_text(storage, f),
              options.remedy("reduce them with scale", "restore the training data"));
    // Also covers a spread so small that its inverse, by which gather multiplies, is infinite in f32.
    if (!std::isfinite(1 / static_cast<float>(spread))) spread = 1;
  }
}

}  // namespace runner::data
