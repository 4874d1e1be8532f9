// Statistics of the training part: what stands for missing values, and what normalises features.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/data/encoding.h"
#include "runner/data/storage.h"

namespace runner::data {

// Sets encoding.fill to the mean of each feature over those of `rows` (empty: all) that have it.  Throws Error(kData)
// naming `file` for a feature that no row has.
void fit_fill(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows, const std::string& file);
// Replaces what is missing; throws Error(kData) when something is and the encoding has no fill.
void fill_missing(Storage& storage, const Encoding& encoding, const std::string& name);

// Sets encoding.center and encoding.spread as encoding.normalize says.  Sums run over rows in order, in f64; the mean
// is taken relative to the first row, so that a constant feature has deviation 0 exactly, which counts as 1.
void fit_normalization(Encoding& encoding, const Storage& storage, std::span<const int32_t> rows);

}  // namespace runner::data
