// What `runner estimate` prints.  Thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runner/train/loop/memory_estimate.h"

namespace runner::report {

struct PrecisionEstimate {
  std::string_view precision;                        // as in mixed_precision
  bool of_recipe = false;                            // the one that it asks for
  std::optional<train::MemoryEstimate> memory = {};  // none: the device has not so much
};

std::string estimate_text(std::span<const PrecisionEstimate> estimates, int64_t processes, int width, bool color);
// {"num_processes", "precisions": [{"mixed_precision", "of_recipe", "parameters", "gradients", "optimizer", "other",
// "activations", "peak": {"training", "evaluation", "saving"}, "all_processes", "at_once": samples, or null}]}, in
// bytes; behind "of_recipe" all is null where the device has not so much.
std::string estimate_document(std::span<const PrecisionEstimate> estimates, int64_t processes);

}  // namespace runner::report
