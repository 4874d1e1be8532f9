// A window of training, from its first batch to the optimizer's step, and the rates of that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "runner/data/loader.h"
#include "runner/optim/update_rules.h"
#include "runner/train/step/counters.h"
#include "schema/recipe.h"

namespace runner::train {

// Of a step of the schedule.
struct WindowRates {
  double factor = 1;               // of every group's learning rate
  std::optional<double> momentum;  // where the schedule moves it
  int64_t schedule_steps = 1;      // that the schedule moves on with the window

  optim::StepRates of(const optim::Rule& rule) const;
  uint64_t digest() const;
};

// What training has done of a window; advance() of a Trainer goes on with it.
struct TrainingWindow {
  int64_t batches = 0;       // that it has had
  bool done = false;         // it has had its last one, too
  bool finite = true;        // false: nothing was updated behind what is not
  bool applied = true;       // false: a gradient overflowed, and the loss scaler left the step out, or learn() will say
  double lr = 0;             // the rate that it used, or was to use; of groups with another one the same factor
  double grad_norm = 0;      // with clip_grad_norm
  int64_t samples = 0;       // of all replicas
  int64_t repeats = 0;       // of all replicas
  data::Position next;       // of the batch after the window
  bool ends_epoch = false;   // one of its batches was the last of an epoch
  bool interrupted = false;  // a replica had been asked to stop when all met last
  uint64_t batch_digest = 0;  // hash of the sample ids and their mask, of this replica
  uint64_t decisions = 0;     // hash of what all replicas must do alike: rates, clipping, updates
};

// What a window is made of: batches, and those of parts that are computed at once.
struct WindowParts {
  bool end_with_epochs = true;
  int64_t accumulation = 1;  // batches of a window, from the next one on
  int64_t most_at_once = 0;  // samples of a part; 0: any number

  // Of a batch of so many samples, the first part.
  int64_t at_once(int64_t batch) const { return most_at_once > 0 ? std::min(batch, most_at_once) : batch; }
  // Whether a batch is the last of its window, `before` of which are before it.
  bool ends(const data::Batch& batch, int64_t before) const {
    return (batch.last_of_epoch && end_with_epochs) || before + 1 == accumulation;
  }
};

// Adds a batch to what a window has seen.
void take_in(const data::Batch& batch, TrainingWindow& window);

// A window has run, or does so: it is counted, unless it ends the run.
void count(const TrainingWindow& window, schema::OnNan on_nan, Counters& counters);

}  // namespace runner::train
