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

// Of a run whose operations ran one by one, in its training batches.
struct EagerFigures {
  int64_t operations = 0;
  double seconds = 0, traced_seconds = 0;  // that they are predicted to take at least, one by one and as graphs
  const Graph* newest = nullptr;           // that was compiled; null: none
};
std::vector<std::string> eager_analysis_of(const std::deque<Graph>& graphs, int64_t batches,
                                           const EagerFigures& figures);

}  // namespace runner::backends::tpu
