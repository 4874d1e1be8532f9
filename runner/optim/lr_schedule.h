// Learning rate schedules: the factor by which the optimizer's learning rate is multiplied in each step. Formulas of
// each type: schedule_def.h.
//
// - A factor is a function of the step only, computed in f64. Steps may be queried in any order; no allocation.
// - Lengths in epochs and samples denote the same part of a run for any number of ranks and accumulation steps.
// - Only `plateau` has state. Only observe() and restore() change it.
//
// Thread safety: const functions may be called concurrently; observe() and restore() require exclusive access.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/recipe/recipe.h"

namespace runner::optim {

// Optimizer steps per `epochs` epochs. If accumulation continues across epochs, an epoch need not have a whole number
// of steps.
struct StepsPerEpoch {
  int64_t steps = 0, epochs = 1;
  StepsPerEpoch() = default;
  StepsPerEpoch(int64_t steps_, int64_t epochs_ = 1) : steps(steps_), epochs(epochs_) {}
};

// Size of a run in optimizer steps.
struct RunLength {
  int64_t total_steps = 0;  // of the whole run
  StepsPerEpoch steps_per_epoch;
  int64_t samples_per_epoch = 0;  // samples used per epoch, without padding and dropped samples
  int64_t samples_per_step = 0;   // of every step except the last of an epoch
  int64_t num_processes = 1;      // used with `compat: accelerate` only; 1 if split_batches is set
};

// Converts a length to optimizer steps. N epochs or N samples end with the first step after which they have all been
// used; the short last step of each epoch counts as a step.
int64_t to_steps(const schema::Length& length, const RunLength& run);

// State of `plateau` to store in checkpoints.
struct PlateauState {
  std::optional<double> best;  // none until a metric value is better than the worst possible one
  int64_t bad_evaluations = 0;
  int64_t cooldown = 0;  // evaluations left that do not count as bad
  double factor = 1.0;
  bool operator==(const PlateauState&) const = default;
};

// Returns whether a schedule also changes the momentum (LrSchedule::momentum).
bool moves_momentum(const schema::SchedulerSpec& spec);

// Returns whether a schedule follows a metric (LrSchedule::observe).
bool observes_metrics(const schema::SchedulerSpec& spec);

// Returns whether a schedule ends with the run, unless the recipe gives its length.
bool ends_with_run(const schema::SchedulerSpec& spec);

// Returns the settings with which such a schedule no longer depends on the length of the run, for a message: `steps` is
// the length that it keeps.
std::vector<std::string> keys_without_run(const schema::SchedulerSpec& spec, int64_t steps);

// Returns the hyperparameters with which an optimizer is created under a schedule. one_cycle replaces the momentum of
// the recipe, so that an optimizer with momentum 0 gets one, as with torch's OneCycleLR.
schema::OptimizerHyper under_schedule(schema::OptimizerHyper hyper, const schema::SchedulerSpec& spec);

struct Schedule;

class LrSchedule {
 public:
  // `spec`: validated. `lr`: the optimizer's learning rate, relative to which `end`, `max_lr` and `min_lr` are reached;
  // groups with another rate get the same factor. Throws Error(kRecipe) if no factor reaches them.
  LrSchedule(const schema::SchedulerSpec& spec, double lr, const RunLength& run);

  // Sets the factor of a schedule of type hook. It must be a function of the step and the optimizer only.
  using Function = std::function<double(int64_t step, int32_t optimizer)>;
  void set_function(Function function) { function_ = std::move(function); }
  bool is_function() const { return function_ != nullptr; }

  // Schedule steps per optimizer step: 1, or num_processes with `compat: accelerate` (as AcceleratedScheduler).
  int64_t steps_per_update() const { return steps_per_update_; }

  // Returns the factor of schedule step `step`, counted from 0. `beyond` decides from `length` on. `optimizer`: index;
  // a schedule of the recipe is that of all optimizers.
  double factor(int64_t step, int32_t optimizer = 0) const;

  // Returns how many of the first `updates` optimizer steps have rate 0 because the schedule ended before; 0 for a
  // function of a hook.
  int64_t updates_at_zero(int64_t updates) const;

  // Returns how many of the first `updates` optimizer steps come after the end of a schedule whose rate then rises
  // again; 0 if it does not, and for a function of a hook.
  int64_t updates_after_rise(int64_t updates) const;

  // Returns the momentum (sgd, rmsprop) or β1 (adam, adamw, lion) of a step, or none if the schedule does not change
  // it.
  std::optional<double> momentum(int64_t step) const;

  // plateau: records the metric of an evaluation and lowers the factor after too many bad ones, like ReduceLROnPlateau.
  // NaN is no improvement. `maximizes`: whether larger metrics are better. Returns whether the factor was lowered. Does
  // nothing for other types.
  bool observe(double metric, bool maximizes);
  const PlateauState& plateau() const { return plateau_; }
  void restore(const PlateauState& state) { plateau_ = state; }

 private:
  int64_t folded(int64_t step) const;
  Schedule schedule() const;

  schema::SchedulerSpec spec_;
  double lr_;
  int64_t warmup_ = 0, length_ = 0, every_ = 1;
  int64_t steps_per_update_ = 1;
  PlateauState plateau_;
  Function function_;
};

}  // namespace runner::optim
