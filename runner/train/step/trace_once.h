// What a hook's step has traced at first, and whether it would trace the same again.
//
// A step that is traced once for each shape and then replayed must do the same each time.  What a hook can ask that
// changes is refused while it is traced; what it changes itself, in variables of its own, shows where it is traced once
// more: at the uses 1, 2, 4, 8, … of what is kept.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "runner/train/step/device_rules.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

struct KeptTrace {
  StepBuilder::Recorded recorded;
  int64_t uses = 0;

  // Counts a use; whether it is one of those at which the step is traced again.
  bool is_checked() { return std::has_single_bit(static_cast<uint64_t>(++uses)); }
};

inline bool traces_once(const schema::Recipe& recipe) {
  return device_rules(recipe).traces_graphs && recipe.tpu.trace_once;
}

// Throws Error(kRun) with the line of the first node where `again` is not what was kept.  `entry`: of the hook.
void check_same_trace(const StepBuilder::Recorded& kept, const StepBuilder::Recorded& again, std::string_view entry);

}  // namespace runner::train
