// Statistics of the training part: replacements of missing values, and normalisation.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/data/encoding.h"
#include "runner/data/storage.h"

namespace runner::data {

// Sets encoding.fill to the mean of each feature over the `rows` (empty: all) in which it is present. Throws
// Error(kData) naming `file` if no row has the feature. `options`: those that the storage was read with.
void fit_fill(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, const std::string& file,
              const ReadOptions& options);
// Replaces missing values. Throws Error(kData) if a value is missing and the encoding has no fill.
void fill_missing(Storage& storage, const Encoding& encoding, const std::string& name);

// data.mean and data.std; empty: those of the training part.
struct GivenChannels {
  std::span<const double> mean, std;
};

// Sets encoding.center and encoding.spread according to encoding.normalize. Sums are in f64 and in row order. The mean
// is computed relative to the first row: the deviation of a constant feature is then exactly 0, for which spread is 1.
// Normalize::kChannels counts all pixels of a channel, or takes what is `given`; throws Error(kData) if the features
// are no images or have another number of channels.
void fit_normalization(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, GivenChannels given,
                       const ReadOptions& options);

}  // namespace runner::data
