// Which pools of the allocator a submission's memory is of.  Values.
#pragma once

#include <cstdint>

#include "backends/gpu/caching_allocator.h"

namespace runner::backends::gpu {

struct StepPools {
  PoolId compute = 0;
  PoolId copy_in = 0;  // whose blocks batches are
};
// Of each stream its own.
inline constexpr StepPools kStreamPools{.compute = 0, .copy_in = 1};
// Captured graphs have memory of their own, all together, which stays with them.
inline constexpr StepPools kCapturePools{.compute = 2, .copy_in = 1};

// With gpu.capture, how often a step is launched operation by operation before its graph is captured.
inline constexpr int64_t kRunsBeforeCapture = 2;

inline bool is_captured(int64_t runs_before, bool captures) {
  return captures && runs_before >= kRunsBeforeCapture;
}
inline StepPools pools_of_run(int64_t runs_before, bool captures) {
  return is_captured(runs_before, captures) ? kCapturePools : kStreamPools;
}
// Behind so many runs a step takes no more: in the second the batch of the first is still there.
inline int64_t runs_until_steady(bool captures) {
  return captures ? kRunsBeforeCapture + 1 : 2;
}

}  // namespace runner::backends::gpu
