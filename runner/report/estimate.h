// What `runner estimate` prints.  Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/train/loop/memory_estimate.h"

namespace runner::report {

struct PrecisionEstimate {
  std::string_view precision;  // as in mixed_precision
  bool of_recipe = false;      // the one that it asks for
  train::MemoryEstimate memory;
};

std::string estimate_text(std::span<const PrecisionEstimate> estimates, int64_t processes, int width, bool color);
// {"num_processes", "precisions": [{"mixed_precision", "of_recipe", "parameters", "gradients", "optimizer", "other",
// "activations", "peak": {"training", "evaluation", "saving"}, "all_processes"}]}, in bytes.
std::string estimate_document(std::span<const PrecisionEstimate> estimates, int64_t processes);

}  // namespace runner::report
