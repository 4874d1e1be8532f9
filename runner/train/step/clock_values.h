// What a Program takes from the counts and rates that the device keeps (update_clock.h), and how it moves them on.
#pragma once

#include <cstdint>
#include <vector>

#include "runner/optim/update_rules.h"
#include "runner/train/step/step_completion.h"
#include "schema/recipe.h"

namespace runner::train {

inline bool has_clock(const ArrayValues& arrays) {
  return arrays.has(Role::kClock);
}

// The factor of the rates that the next step uses, () f64.
Value clock_factor(const ArrayValues& arrays);
// Number of the next update of an optimizer, from 1, () f64.
Value next_update(const ArrayValues& arrays, int32_t optimizer);
// Scalars of an update with that number, or one number for each of several, under the recipe's schedule, f32.
std::vector<Value> clock_scalars(const ArrayValues& arrays, const schema::SchedulerSpec& schedule,
                                 const optim::Rule& rule, Value number);
// An update was applied, and the schedule goes on with one, where that was.  applied: () bool.
void count_update(ArrayValues& arrays, int32_t optimizer, Value applied);
void move_schedule(ArrayValues& arrays, Value applied);

}  // namespace runner::train
