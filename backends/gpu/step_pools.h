// Allocator pools that a submission uses.
#pragma once

#include <cstdint>

#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/capture_counters.h"

namespace runner::backends::gpu {

struct StepPools {
  PoolId compute = 0;
  PoolId copy_in = 0;  // pool of batches
};
// Each stream has a pool of its own.
inline constexpr StepPools kStreamPools{.compute = 0, .copy_in = 1};
// Captured graphs share a separate pool, which is never released.
inline constexpr StepPools kCapturePools{.compute = 2, .copy_in = 1};

inline StepPools pools_of_run(int64_t runs_before, bool captures) {
  return is_captured(runs_before, captures) ? kCapturePools : kStreamPools;
}
// Number of runs after which a step allocates no more: during the second run the batch of the first still exists.
inline int64_t runs_until_steady(bool captures) {
  return captures ? kRunsBeforeCapture + 1 : 2;
}

}  // namespace runner::backends::gpu
