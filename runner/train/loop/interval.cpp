#include "runner/train/loop/interval.h"

namespace runner::train {
namespace {

int64_t in(schema::Unit unit, const Progress& reached) {
  switch (unit) {
    case schema::Unit::kSteps: return reached.steps;
    case schema::Unit::kEpochs: return reached.epochs;
    case schema::Unit::kSamples: return reached.samples;
  }
  return 0;
}

}  // namespace

int64_t Interval::count(const Progress& reached) const {
  return length_ ? in(length_->unit, reached) / length_->count : 0;
}

bool Interval::due(const Progress& before, const Progress& after) const {
  return count(before) < count(after);
}

}  // namespace runner::train
