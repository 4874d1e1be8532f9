// The first trace of a hook's step, and the check that tracing again would give the same.
//
// A step that is traced once per shape and then replayed must do the same each time. Calls with changing results are
// rejected during tracing. Changes of the hook's own variables are found by tracing again at uses 1, 2, 4, 8, … of the
// trace.
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

  // Counts a use. Returns whether the step must be traced again at this use.
  bool is_checked() { return std::has_single_bit(static_cast<uint64_t>(++uses)); }
};

inline bool traces_once(const schema::Recipe& recipe) {
  return device_rules(recipe).traces_graphs && recipe.tpu.trace_once;
}

// Throws Error(kRun) with the line of the first different node if `again` differs from `kept`. `entry`: name of the
// hook's entry.
void check_same_trace(const StepBuilder::Recorded& kept, const StepBuilder::Recorded& again, std::string_view entry);

}  // namespace runner::train
