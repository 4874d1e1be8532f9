// A window of training, from its first batch to the optimizer's step, the rates of that, and what the host counts of
// all windows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runner/data/loader.h"
#include "runner/optim/update_rules.h"
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

// What the host counts about the run so far.
struct Counters {
  int64_t windows = 0;    // finished, skipped ones included
  int64_t applied = 0;    // of them those that updated the parameters
  int64_t samples = 0;    // seen in training, repeats not counted
  int64_t batches = 0;    // that training has been given, those of a window under way included
  int64_t scheduled = 0;  // steps of the schedule
  // By name of an optimizer: updates that its slots have seen, those in a parent run included.  Where there is none: 0.
  std::map<std::string, int64_t> updates = {};
  bool update_was_skipped = false;  // the newest one in a loop of a hook's
  int64_t repeats = 0;              // samples that were read once more, to fill up batches
  int64_t updates_of(const std::string& optimizer) const;
  bool operator==(const Counters&) const = default;
};

// What a hook's metric is made of: Σ sum / Σ weight.
struct MetricSum {
  double sum = 0, weight = 0;
  void operator+=(const MetricSum& other) {
    sum += other.sum;
    weight += other.weight;
  }
};
using MetricSums = std::map<std::string, MetricSum>;
void add_to(MetricSums& sums, const MetricSums& more);

// Those of a hook's training step since the last points.  As in train/loss, a window counts if it is finite.
struct StepMetrics {
  MetricSums ended;    // of windows that are over
  MetricSums window;   // of the one under way, of all replicas whose gradients it adds up
  MetricSums batches;  // of it, too, on this replica: the others have not added theirs
  MetricSums in_window() const;
  void end_window(bool finite);
};

// What training has done of a window; advance() of a Trainer goes on with it.
struct TrainingWindow {
  int64_t batches = 0;      // that it has had
  bool done = false;        // it has had its last one, too
  bool finite = true;       // false: nothing was updated behind what is not
  bool applied = true;      // false: a gradient overflowed, and the loss scaler left the step out, or learn() will say
  double lr = 0;            // the rate that it used, or was to use; of groups with another one the same factor
  double grad_norm = 0;     // with clip_grad_norm
  int64_t samples = 0;      // of all replicas
  int64_t repeats = 0;      // of all replicas
  data::Position next;      // of the batch after the window
  bool ends_epoch = false;  // one of its batches was the last of an epoch
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
