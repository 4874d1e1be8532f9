// train.auto_batch_size: finds the largest micro-batch that fits into the memory of the device.
//
// Nothing is run to find it, since the memory of a step is known once it is compiled. The batches of the data plan do
// not change; a batch is divided into micro-batches whose gradients accumulate. Value types; fit_batch() is not
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/exec/backend.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

class TrialRank;  // trial_rank.h

struct BatchAttempt {
  int64_t samples = 0;  // micro-batch
  int64_t bytes = 0;    // peak memory of a process; a lower bound if the device rejected an allocation
  bool fits = false;
};

struct FittedBatch {
  int64_t samples = 0;                 // maximum micro-batch
  int64_t batch_size = 0;              // of a micro-batch in training
  int64_t accumulation = 0;            // micro-batches per optimizer step of full batches
  int64_t memory_bytes = 0;            // available to a process; 0 for a resumed run, which does not measure
  std::vector<BatchAttempt> attempts;  // made by this attempt of the run
};

// The result that an earlier attempt of the run found.
FittedBatch fitted_before(int64_t samples, const schema::Recipe& recipe, const data::DataPlan& plan);

// Halves the micro-batch, in training and evaluation, until all steps of `trial` fit. `trial` then has this limit. The
// result holds for all ranks, which are alike. Throws Error(kRun) if not even one sample fits.
FittedBatch fit_batch(TrialRank& trial, const schema::Recipe& recipe, const data::Data& data,
                      const data::DataPlan& plan, const backends::Device& device);

}  // namespace runner::train
