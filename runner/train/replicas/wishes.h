// What the replicas agree on behind each window: what one of them is asked for, all do, and what all must have done
// alike is compared.
#pragma once

#include <cstdint>

#include "backends/collectives/collectives.h"

namespace runner::train {

struct Wishes {
  bool interrupted = false;  // from outside
  bool stop = false;         // by a hook: the run, behind this window
  bool save = false;         // by a hook
  int64_t drawn = 0;         // numbers that the hook has drawn
  int64_t accumulation = 1;  // batches of the windows to come
  uint64_t decisions = 0;    // a hash of what has been done: rates, clipping, losses, updates
};

// Those of all replicas, which call it together.  One that had no batch has drawn fewer numbers: all go on from where
// the furthest is.  Throws Error(kRun) where they have not decided alike, or want windows of other lengths.
Wishes agreed(const Wishes& mine, backends::Collectives& ranks, int64_t step);

}  // namespace runner::train
