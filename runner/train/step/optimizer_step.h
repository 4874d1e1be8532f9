// An optimizer step from its first batch to its update, and its rates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/dist/process_group.h"
#include "runner/data/loader.h"
#include "runner/optim/update_rules.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/optimizers.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Rates of a schedule step.
struct ScheduleRates {
  double factor = 1;                       // of the learning rate of the first optimizer
  std::vector<double> other_factors = {};  // of the other optimizers; empty: as the first
  std::optional<double> momentum = {};     // if the schedule changes it
  int64_t schedule_steps = 1;              // schedule steps per optimizer step

  double factor_of(int32_t optimizer) const {
    return optimizer == 0 || other_factors.empty() ? factor : other_factors[static_cast<size_t>(optimizer) - 1];
  }
  optim::StepRates of(const OptimizerGroup& group) const;
  uint64_t digest() const;
};

// Whether ranks update separate weights between averages (train.local_sgd). A step then uses only the rank's own
// batches, and checkpoints and evaluations need an average first. `ranks`: null for a single process.
inline bool trains_locally(const schema::Recipe& recipe, const backends::ProcessGroup* ranks) {
  return ranks != nullptr && recipe.train.local_sgd.has_value();
}

// Progress and result of an optimizer step; see Stepper::advance().
struct StepResult {
  int64_t batches = 0;  // taken so far
  bool done = false;    // the last batch has been taken
  bool finite = true;   // false if a value is not finite, so that nothing was updated
  // false if a gradient overflowed and the loss scaler skipped the step, or until Stepper::read_counters() sets it
  bool applied = true;
  double lr = 0;              // rate of the first optimizer, also if the step was skipped
  double grad_norm = 0;       // if reports_grad_norm()
  int64_t samples = 0;        // of all ranks
  int64_t repeats = 0;        // padding samples of all ranks
  data::Position next;        // position of the batch after the optimizer step
  bool ends_epoch = false;    // one of its batches was the last of an epoch
  bool interrupted = false;   // a rank had been asked to stop at the last all-reduce
  uint64_t batch_digest = 0;  // hash of the sample ids and their mask, of this rank
  uint64_t call_digest = 0;   // hash of rates, clipping and updates, which all ranks must share

  // Counts a batch that has been taken.
  void add_batch(const data::Batch& batch);
};

// How an optimizer step is divided into batches, and batches into micro-batches.
struct GradAccumulation {
  bool end_with_epochs = true;
  int64_t batches_per_step = 1;  // batches per optimizer step, from the next one on
  int64_t max_micro_batch = 0;   // maximum samples of a micro-batch; 0: no limit

  // Returns the size of the first micro-batch of a batch.
  int64_t micro_batch(int64_t batch) const { return max_micro_batch > 0 ? std::min(batch, max_micro_batch) : batch; }
  // Calls `each` with the micro-batches of a batch, in order, until it returns false.
  template <class Each>
  void each_micro_batch(const data::Batch& batch, const Each& each) const {
    for (int64_t first = 0; first < batch.size; first += micro_batch(batch.size))
      if (!each(batch.part(first, micro_batch(batch.size - first)))) return;
  }
  // Whether a batch is the last of its optimizer step. `before`: number of batches before it.
  bool ends(const data::Batch& batch, int64_t before) const {
    return (batch.last_of_epoch && end_with_epochs) || before + 1 == batches_per_step;
  }
};

}  // namespace runner::train
