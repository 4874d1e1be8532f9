// Finds when the bytes of a state have their final contents in a Plan.
#pragma once

#include <cstdint>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"

namespace runner::backends::gpu {

// Returns the last launch that writes any of these bytes: a step, the number of steps for the state copies after them,
// or kBeforeAll if there is none.
inline constexpr int32_t kBeforeAll = -1;
int32_t last_write(const Plan& plan, const StateBytes& bytes);

}  // namespace runner::backends::gpu
