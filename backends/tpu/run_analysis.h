// What of a run's graphs is worth a word: what cost it compilations and waits, where, and what to change.
//
// The occasions are those of PyTorch/XLA's own analysis; beyond it the difference is named that made each graph
// another.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

struct RunFigures {
  int64_t batches = 0;  // of training
  int64_t reads = 0;    // of values, by a hook
};

std::vector<std::string> analysis_of(const std::deque<Graph>& graphs, const RunFigures& figures);

}  // namespace runner::backends::tpu
