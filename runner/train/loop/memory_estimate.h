// The memory that a recipe will need, before it runs.  Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/backend.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/train/step/hooks.h"
#include "runner/train/step/memory_use.h"
#include "schema/recipe.h"

namespace runner::train {

struct MemoryEstimate {
  MemoryUse training;  // activations: of the largest step
  PeakMemory peak;
  int64_t all_processes = 0;  // in training
  // Samples of a step at most, as train.auto_batch_size cuts them; none: it is off.
  std::optional<int64_t> at_once = {};
};

// From the steps that a run would compile, without memory for them.  Throws Error(kUsage) where a hook has a loop of
// its own, whose steps are not known before it runs, and OutOfMemory where a device that accounts for its memory has
// not so much.
MemoryEstimate estimate_memory(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                               backends::Device& device, Hooks* hooks);

}  // namespace runner::train
