// How many samples a step may have at once, so that it fits into the memory of the device: train.auto_batch_size.
//
// Nothing is tried and nothing fails: what a step takes is known when it is compiled.  The batches of the data plan
// stay as they are; a step takes parts of them, and the gradients of the parts are added up as those of the batches of
// a window are.  Values; fit_batch() is not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "schema/recipe.h"

namespace runner::train {

class TrialReplica;  // trial_replica.h

struct BatchAttempt {
  int64_t samples = 0;  // at once
  int64_t bytes = 0;    // that a process then takes at most; at least, where the device has refused something
  bool fits = false;
};

struct FittedBatch {
  int64_t samples = 0;                 // that a step may have at once
  int64_t batch_size = 0;              // of what is computed at once in training
  int64_t accumulation = 0;            // of those, in a window of whole batches
  int64_t memory_bytes = 0;            // that a process may take; 0: a resumed run, which asks no more
  std::vector<BatchAttempt> attempts;  // of this attempt of the run
};

// As an earlier attempt of the run has found it.
FittedBatch fitted_before(int64_t samples, const schema::Recipe& recipe, const data::DataPlan& plan);

// Halves the largest batch, in training and evaluation, until all steps of `trial` fit, which then has no more at once:
// for all processes alike, which are no different.  Throws Error(kRun) where not even one sample fits.
FittedBatch fit_batch(TrialReplica& trial, const schema::Recipe& recipe, const data::Data& data,
                      const data::DataPlan& plan, const backends::Device& device);

}  // namespace runner::train
