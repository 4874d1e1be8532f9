// Reads and updates the device-side counters and rates (update_clock.h) in a Program under construction.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/optim/update_rules.h"
#include "runner/train/step/array_values.h"
#include "runner/train/step/optimizers.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

inline bool has_clock(const ArrayValues& arrays) {
  return arrays.has(ArrayRole::kClock);
}

// Returns the learning rate factor of the next update of an optimizer, () f64.
Value clock_factor(const ArrayValues& arrays, int32_t optimizer = 0);
// Returns the number of the next update of an optimizer, counted from 1, () f64.
Value next_update(const ArrayValues& arrays, int32_t optimizer);
// Returns the f32 scalars of update `number` under the recipe's schedule. `number`: () f64, or (n) for several updates.
std::vector<Value> clock_scalars(const ArrayValues& arrays, const schema::SchedulerSpec& schedule,
                                 const OptimizerGroup& group, Value number);
// Count an update of an optimizer, and a step of the schedule, if `applied`. `applied`: () bool.
void count_update(ArrayValues& arrays, int32_t optimizer, Value applied);
void move_schedule(ArrayValues& arrays, Value applied);

}  // namespace runner::train
