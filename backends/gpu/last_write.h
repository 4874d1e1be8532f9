// When the bytes of a state are as a Plan leaves them.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "backends/plan/plan.h"

namespace runner::backends::gpu {

// The launch - a step, or behind them the copies of states - that touches any of these bytes last; kBeforeAll: none.
inline constexpr int32_t kBeforeAll = -1;
int32_t last_write(const Plan& plan, const StateBytes& bytes);

}  // namespace runner::backends::gpu
