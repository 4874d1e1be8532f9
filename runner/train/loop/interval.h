// Recurring intervals of a recipe: "10 steps", "1 epoch", "5000 samples".
#pragma once

#include <cstdint>
#include <optional>

#include "runner/optim/lr_schedule.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Progress of a run.
struct Progress {
  int64_t steps = 0;    // finished optimizer steps
  int64_t epochs = 0;   // finished epochs
  int64_t samples = 0;  // training samples, without padding
};

class Interval {
 public:
  // Without a length it is never due.
  Interval(std::optional<schema::Length> length, const optim::RunLength& run);

  // Whether the optimizer step from `before` to `after` has reached the next multiple of the length. Depends on nothing
  // else, so a resumed run keeps its intervals, with any number of ranks.
  bool due(const Progress& before, const Progress& after) const;
  // Returns how many multiples of the length have been reached.
  int64_t count(const Progress& reached) const;

 private:
  // The n-th multiple is reached with n · size / divisor units.
  std::optional<schema::Unit> unit_;
  int64_t size_ = 1, divisor_ = 1;
};

}  // namespace runner::train
