// The batch that the device computes, for error messages. The host may see an error later than it happened.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "backends/dist/rank_error.h"
#include "schema/base/error.h"

namespace runner::train {

struct BatchPlace {
  enum class Of { kTraining, kEvaluation, kPrediction };
  Of of;
  int64_t number;     // from 1; of the training run, or within one pass over other data
  int64_t epoch = 0;  // for training only

  std::string text() const {
    if (of == Of::kTraining) return fmt::format("in training batch {} (epoch {})", number, epoch);
    return fmt::format("in {}batch {}", of == Of::kEvaluation ? "evaluation " : "", number);
  }
};

// Runs `work` and adds the place as a note to an Error that it throws. `Noted`: the type of errors to annotate.
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
