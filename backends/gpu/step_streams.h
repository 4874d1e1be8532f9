// Which memory a submission allocates from: a caching allocator has pools of their own for each stream.  Values.
#pragma once

#include <cstdint>
#include <span>

#include "backends/gpu/caching_allocator.h"

namespace runner::backends::gpu {

struct StepStreams {
  StreamId compute = 0;
  StreamId copy_in = 0;  // whose blocks batches are
};
inline constexpr StepStreams kStepStreams{.compute = 0, .copy_in = 1};
// Captured graphs have memory of their own, all together, which stays with them.
inline constexpr StepStreams kCaptureStreams{.compute = 2, .copy_in = 1};

// With gpu.capture, how often a step is launched operation by operation before its graph is captured.
inline constexpr int64_t kRunsBeforeCapture = 2;

inline StepStreams streams_of_run(int64_t runs_before, bool captures) {
  return captures && runs_before >= kRunsBeforeCapture ? kCaptureStreams : kStepStreams;
}
// Behind so many runs a step takes no more: in the second the batch of the first is still there.
inline int64_t runs_until_steady(bool captures) {
  return captures ? kRunsBeforeCapture + 1 : 2;
}

}  // namespace runner::backends::gpu
