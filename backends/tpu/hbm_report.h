// Prints memory plans in XLA's format.
#pragma once

#include <string>

#include "backends/tpu/hbm.h"

namespace runner::backends::tpu {

// Formats a size as XLA does: "0B", "812B", "420.0K", "530.00M", "9.08G".
std::string xla_size_text(int64_t bytes);

// Error text for a Program that does not fit: XLA's RESOURCE_EXHAUSTED with the totals, the ten largest allocations
// with operator, source line, shape and padding, and the first thing to change. `options`: those that `plan` was made
// with.
std::string resource_exhausted_text(const DeviceProgram& device, const HbmOptions& options, const HbmPlan& plan);

}  // namespace runner::backends::tpu
