// The definition of a learning rate schedule of the recipe.
//
// Each schedule has one definition and a row in RUNNER_SCHEDULES; its fields are in schema/fields.yaml. There are no
// defaults: a definition that leaves out a field does not compile, a row without a definition does not link.
// Definitions are constants; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runner/optim/lr_schedule.h"
#include "schema/base/required.h"

namespace runner::optim {

using schema::SchedulerSpec;

// A schedule of a run.
struct Schedule {
  const SchedulerSpec& spec;
  double lr;                      // of the optimizer
  int64_t warmup, length, every;  // schedule steps
  int64_t end;                    // step from which one_cycle stays where it is

  double decay_steps() const { return static_cast<double>(std::max<int64_t>(1, length - warmup)); }
  // Part of the decay before `step`: 0 after the warm-up, 1 at the end.
  double progress(int64_t step) const { return static_cast<double>(step - warmup) / decay_steps(); }
};

struct ScheduleDef {
  // Factor of the learning rate in a step after the warm-up.
  Required<double (*)(const Schedule& schedule, int64_t step)> factor;
  // Momentum in a step, with scheduler.cycle_momentum. Null: unchanged.
  Required<double (*)(const Schedule& schedule, int64_t step)> momentum;
  // Records the metric of an evaluation in `state`. Returns whether the rate was lowered. Null: ignores metrics.
  Required<bool (*)(const Schedule& schedule, PlateauState& state, double metric, bool maximizes)> observe;
  // Throws Error(kRecipe) if the fields do not fit the optimizer's learning rate. May be null.
  Required<void (*)(const SchedulerSpec& spec, double lr)> check;
  Required<bool> uses_length;    // has the field scheduler.length
  Required<bool> replaces_rate;  // the fields give the learning rate, so that of the optimizer has no effect
};

const ScheduleDef& def_of(schema::SchedulerType type);

// The schedules of the recipe, one row each, in the order of the recipe's choices: the enumerator of
// schema::SchedulerType without its k.
#define RUNNER_SCHEDULES(SCHEDULE) \
  SCHEDULE(Constant)               \
  SCHEDULE(Linear)                 \
  SCHEDULE(Cosine)                 \
  SCHEDULE(CosineRestarts)         \
  SCHEDULE(Polynomial)             \
  SCHEDULE(OneCycle)               \
  SCHEDULE(Step)                   \
  SCHEDULE(Exponential)            \
  SCHEDULE(Plateau)                \
  SCHEDULE(Hook)

#define RUNNER_DECLARE_SCHEDULE(Name) extern const ScheduleDef k##Name##Schedule;
RUNNER_SCHEDULES(RUNNER_DECLARE_SCHEDULE)
#undef RUNNER_DECLARE_SCHEDULE

}  // namespace runner::optim
