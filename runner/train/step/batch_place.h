// Which batch the device computes with: its errors say so, whenever the host learns of them.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "backends/collectives/rank_error.h"
#include "schema/error.h"

namespace runner::train {

struct BatchPlace {
  enum class Of { kTraining, kEvaluation, kPrediction };
  Of of;
  int64_t number;     // from 1: of a run's training, or of one pass over other data
  int64_t epoch = 0;  // of training

  std::string text() const {
    if (of == Of::kTraining) return fmt::format("in training batch {} (epoch {})", number, epoch);
    return fmt::format("in {}batch {}", of == Of::kEvaluation ? "evaluation " : "", number);
  }
};

// An error of `work`, or one of a kind alone, gets a note with the place.
template <class Noted = Error, class Work>
auto in_batch(const BatchPlace& place, const Work& work) {
  try {
    return work();
  } catch (const backends::RankError&) {
    throw;
  } catch (Noted& error) {
    error.note(place.text());
    throw;
  }
}

}  // namespace runner::train
