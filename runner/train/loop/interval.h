// What a recipe wants every so often: "10 steps", "1 epoch", "5000 samples".
#pragma once

#include <cstdint>
#include <optional>

#include "schema/recipe.h"

namespace runner::train {

// How far a run has come.
struct Reached {
  int64_t steps = 0;    // windows
  int64_t epochs = 0;   // finished
  int64_t samples = 0;  // repeats not counted
};

class Interval {
 public:
  // Without a length: never.
  explicit Interval(std::optional<schema::Length> length) : length_(length) {}

  // Whether the window that led from `before` to `after` has reached the next multiple of the length.  It depends on
  // nothing else, so that a resumed run, with whatever replicas, goes on with the same rhythm.
  bool due(const Reached& before, const Reached& after) const;
  // How many multiples of the length have been reached.
  int64_t count(const Reached& reached) const;

 private:
  std::optional<schema::Length> length_;
};

}  // namespace runner::train
