// The learning rate over a run: the factor by which each step multiplies the optimizer's rate.
//
// 1. A factor is a function of the step alone, in f64.  Any step may be asked for, in any order, without allocation.
// 2. Lengths in epochs and samples mean the same part of a run whatever the replicas and the accumulation.
// 3. Only `plateau` has state, which observe() and restore() alone change.
// Const functions may be called from several threads; observe() and restore() need exclusive access.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "schema/recipe.h"

namespace runner::optim {

// So many steps in so many epochs: where windows go on over the end of an epoch, an epoch need not have a whole number.
struct StepsPerEpoch {
  int64_t steps = 0, epochs = 1;
  StepsPerEpoch() = default;
  StepsPerEpoch(int64_t steps_, int64_t epochs_ = 1) : steps(steps_), epochs(epochs_) {}
};

// The size of a run in optimizer steps (windows).
struct RunScale {
  int64_t total_steps = 0;  // of the whole run
  StepsPerEpoch steps_per_epoch;
  int64_t samples_per_epoch = 0;  // that an epoch trains on: no padding, nothing that drop_last drops
  int64_t samples_per_step = 0;   // of every step but the last of an epoch
  int64_t num_processes = 1;      // of interest to `compat: accelerate` alone; 1 where split_batches is on
};

// The number of steps in a length.  N epochs and N samples end with the first step by whose end they have been seen,
// counting each epoch's short last step.
int64_t to_steps(const schema::Length& length, const RunScale& scale);

// What a state has to keep of `plateau`.
struct PlateauState {
  std::optional<double> best;  // none before the first figure that is better than the worst possible
  int64_t bad_evaluations = 0;
  int64_t cooldown = 0;  // evaluations that still count as good
  double factor = 1.0;
  bool operator==(const PlateauState&) const = default;
};

// Whether a schedule moves the momentum (LrSchedule::momentum) as well.
bool moves_momentum(const schema::SchedulerSpec& spec);

// The hyperparameters that an optimizer starts with under a schedule.  one_cycle puts its own momentum in the place of
// the recipe's, so that an optimizer with momentum 0 has one from then on (as torch's OneCycleLR when it is made).
schema::OptimizerHyper under_schedule(schema::OptimizerHyper hyper, const schema::SchedulerSpec& spec);

class LrSchedule {
 public:
  // `spec`: as the reader checked it.  `lr`: the optimizer's own rate, from which `end`, `max_lr` and `min_lr` are
  // reached; groups with another rate get the same factor.  Throws Error(kRecipe) where no factor gets there.
  LrSchedule(const schema::SchedulerSpec& spec, double lr, const RunScale& scale);

  // Of type hook: what gives the factor; a function of the step as any other.
  void set_function(std::function<double(int64_t step)> function) { function_ = std::move(function); }

  // How far an optimizer step moves the schedule: 1; with `compat: accelerate`, num_processes (AcceleratedScheduler).
  int64_t steps_per_update() const { return steps_per_update_; }

  // The factor of a step of the schedule, counted from 0: the number of its steps before that.
  // Formulas: the functions of the same names in transformers.optimization; OneCycleLR, StepLR and ExponentialLR in
  // torch.optim.lr_scheduler.
  double factor(int64_t step) const;

  // The momentum (sgd, rmsprop) or β1 (adam, adamw, lion) of a step; none where the schedule leaves it alone.
  std::optional<double> momentum(int64_t step) const;

  // plateau: takes the figure of one evaluation (NaN is no improvement) and lowers the factor after too many bad ones,
  // as ReduceLROnPlateau; true if it did.  Does nothing for other types.
  bool observe(double metric);
  const PlateauState& plateau() const { return plateau_; }
  void restore(const PlateauState& state) { plateau_ = state; }

 private:
  int64_t in_cycle(int64_t step) const;
  double decay(int64_t step) const;  // the factor after the warm-up
  bool observe_once(double metric);
  bool improves(double metric) const;

  schema::SchedulerSpec spec_;
  double lr_;
  int64_t warmup_ = 0, length_ = 0, every_ = 1;
  int64_t steps_per_update_ = 1;
  PlateauState plateau_;
  std::function<double(int64_t step)> function_;
};

}  // namespace runner::optim
