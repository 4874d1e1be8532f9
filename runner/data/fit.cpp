#include "runner/data/fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runner/data/image_shape.h"
#include "runner/data/stream.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

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

// Sums over the bytes of the rows, which are exact.
void sum_channels(Encoding& encoding, const SampleSource& source, std::span<const int32_t> rows, int64_t samples,
                  int64_t pixels) {
  const size_t channels = encoding.center.size();
  std::vector<ChannelSums> total(channels);
  for (int64_t i = 0; i < samples; ++i) {
    const std::span<const ChannelSums> sums = source.channel_sums(rows.empty() ? i : rows[static_cast<size_t>(i)]);
    for (size_t c = 0; c < channels; ++c) {
      total[c].bytes += sums[c].bytes;
      total[c].squares += sums[c].squares;
    }
  }
  const auto count = static_cast<__int128>(samples) * pixels;
  for (size_t c = 0; c < channels; ++c) {
    const __int128 squared_deviations =
        count * total[c].squares - static_cast<__int128>(total[c].bytes) * total[c].bytes;
    const auto scale = 255 * static_cast<double>(count);
    encoding.center[c] = static_cast<double>(total[c].bytes) / scale;
    encoding.spread[c] = std::sqrt(static_cast<double>(squared_deviations)) / scale;
  }
}

// Calls visit(c, feature) for each feature of each row in channel c.
template <class Visit>
void each_pixel(const Storage& storage, std::span<const int32_t> rows, size_t pixels, Visit visit) {
  each_row(storage, rows, [&](int64_t, const std::vector<float>& row) {
    for (size_t f = 0; f < row.size(); ++f) visit(f / pixels, double{row[f]});
  });
}

// In two passes; the mean relative to the first pixel of the channel, so that the deviation of a constant one is 0.
void measure_channels(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, int64_t samples,
                      int64_t pixels) {
  std::vector<double> first(encoding.center.size()), sum(first.size()), squares(first.size());
  const auto size = static_cast<size_t>(pixels);
  std::vector<float> row(static_cast<size_t>(storage.width()));
  storage.read_row(rows.empty() ? 0 : rows.front(), row);
  for (size_t c = 0; c < first.size(); ++c) first[c] = double{row[c * size]};
  each_pixel(storage, rows, size, [&](size_t c, double value) { sum[c] += value - first[c]; });
  const auto count = static_cast<double>(samples) * static_cast<double>(pixels);
  for (size_t c = 0; c < first.size(); ++c) encoding.center[c] = first[c] + sum[c] / count;
  each_pixel(storage, rows, size, [&](size_t c, double value) {
    squares[c] += (value - encoding.center[c]) * (value - encoding.center[c]);
  });
  for (size_t c = 0; c < first.size(); ++c) encoding.spread[c] = std::sqrt(squares[c] / count);
}

void fit_channels(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, GivenChannels given) {
  const std::optional<ImageShape> image = image_shape_of(storage.feature_shape);
  RUN_CHECK(image.has_value(), ErrorKind::kData,
            "data.normalize: channels needs features (H, W) or (C, H, W), got {}; use standard, or min_max",
            storage.feature_shape.to_string());
  const auto channels = static_cast<size_t>(image->channels);
  if (!given.mean.empty()) {
    RUN_CHECK(given.mean.size() == channels && given.std.size() == channels, ErrorKind::kData,
              "data.mean has {} and data.std {}, but the samples {} have {}; give one number for each channel",
              count_text(std::ssize(given.mean), "number"), std::ssize(given.std), storage.feature_shape.to_string(),
              count_text(image->channels, "channel"));
    encoding.center.assign(given.mean.begin(), given.mean.end());
    encoding.spread.assign(given.std.begin(), given.std.end());
    return;
  }
  encoding.center.assign(channels, 0);
  encoding.spread.assign(channels, 0);
  const int64_t samples = rows.empty() ? storage.samples : std::ssize(rows);
  if (storage.source && !storage.source->channel_sums(0).empty())
    sum_channels(encoding, *storage.source, rows, samples, image->pixels());
  else
    measure_channels(encoding, storage, rows, samples, image->pixels());
  for (double& spread : encoding.spread)
    if (!std::isnormal(1 / static_cast<float>(spread))) spread = 1;  // of a constant channel
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

void fit_normalization(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, GivenChannels given,
                       const ReadOptions& options) {
  if (encoding.normalize == schema::Normalize::kNone) return;
  if (encoding.normalize == schema::Normalize::kChannels) return fit_channels(encoding, storage, rows, given);
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
