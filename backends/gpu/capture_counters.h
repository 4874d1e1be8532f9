// Counters of captured graphs on an emulated GPU (captured_graphs.h).
#pragma once

#include <cstdint>

namespace runner::backends::gpu {

struct CaptureCounters {
  int64_t graphs = 0;     // captured so far
  int64_t replays = 0;    // of these graphs
  int64_t fallbacks = 0;  // launches of a changed step, run eagerly
};

}  // namespace runner::backends::gpu
