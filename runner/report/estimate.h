// Output of `runner estimate`. Thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/train/loop/step_estimate.h"

namespace runner::report {

struct PrecisionEstimate {
  std::string_view precision;                      // as in mixed_precision
  bool of_recipe = false;                          // the precision of the recipe
  std::optional<train::StepEstimate> memory = {};  // nullopt: does not fit in the device's memory
};

std::string estimate_text(std::span<const PrecisionEstimate> estimates, int64_t processes, int width, bool color);
// docs/cli.md lists the keys.
std::string estimate_document(std::span<const PrecisionEstimate> estimates, int64_t processes);

}  // namespace runner::report
