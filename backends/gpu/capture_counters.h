// How often an emulated GPU has replayed captured graphs (captured_graphs.h).
#pragma once

#include <cstdint>

namespace runner::backends::gpu {

struct CaptureCounters {
  int64_t graphs = 0;     // captured so far
  int64_t replays = 0;    // of them
  int64_t fallbacks = 0;  // of steps that have changed, launched operation by operation
};

}  // namespace runner::backends::gpu
