#include "runner/train/loop/interval.h"

#include <limits>

namespace runner::train {
namespace {

int64_t saturated_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace

// Parts of an epoch are counted in samples, and parts of the run in steps.
Interval::Interval(std::optional<schema::Length> length, const optim::RunLength& run) {
  if (!length) return;
  unit_ = length->unit;
  size_ = length->count;
  divisor_ = length->divisor;
  if (length->unit == schema::Unit::kEpochs && length->divisor > 1) {
    unit_ = schema::Unit::kSamples;
    size_ = saturated_product(size_, run.samples_per_epoch);
  } else if (length->unit == schema::Unit::kRuns) {
    unit_ = schema::Unit::kSteps;
    size_ = saturated_product(size_, run.total_steps);
  }
}

int64_t Interval::count(const Progress& reached) const {
  if (!unit_) return 0;
  const int64_t units = *unit_ == schema::Unit::kSamples  ? reached.samples
                        : *unit_ == schema::Unit::kEpochs ? reached.epochs
                                                          : reached.steps;
  return static_cast<int64_t>(static_cast<__int128>(units) * divisor_ / size_);
}

bool Interval::due(const Progress& before, const Progress& after) const {
  return count(before) < count(after);
}

}  // namespace runner::train
