// When a step is captured as a CUDA graph, and counters of captured graphs (captured_graphs.h).
#pragma once

#include <cstdint>

namespace runner::backends::gpu {

// With gpu.capture, number of eager runs before a step is captured.
inline constexpr int64_t kRunsBeforeCapture = 2;

inline bool is_captured(int64_t runs_before, bool captures) {
  return captures && runs_before >= kRunsBeforeCapture;
}

struct CaptureCounters {
  int64_t graphs = 0;     // captured so far
  int64_t replays = 0;    // of these graphs
  int64_t fallbacks = 0;  // launches of a changed step, run eagerly
};

}  // namespace runner::backends::gpu
