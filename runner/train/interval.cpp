#include "runner/train/interval.h"

namespace runner::train {
namespace {

int64_t in(schema::Unit unit, const Progress& progress) {
  switch (unit) {
    case schema::Unit::kSteps: return progress.steps;
    case schema::Unit::kEpochs: return progress.epochs;
    case schema::Unit::kSamples: return progress.samples;
  }
  return 0;
}

}  // namespace

bool Interval::due(const Progress& before, const Progress& after) const {
  return length_ && in(length_->unit, before) / length_->count < in(length_->unit, after) / length_->count;
}

}  // namespace runner::train
