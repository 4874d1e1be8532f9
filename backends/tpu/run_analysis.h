// Warnings about a run's graphs: what caused compilations and waits, where, and what to change.
//
// The triggers are those of PyTorch/XLA's own analysis, and fewer graphs of changing shapes or operations if they are
// many per batch or cost much time. In addition, the difference that caused each graph is named.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backends/tpu/graph.h"

namespace runner::backends::tpu {

struct RunFigures {
  int64_t batches = 0;  // training batches
  int64_t reads = 0;    // values read by a hook in training
  int64_t evaluation_reads = 0;
  double seconds = 0;  // since the first submission
  ShortBatches short_batches = {};
};

std::vector<std::string> analysis_of(const std::deque<Graph>& graphs, const RunFigures& figures);

// Training batches of a run whose operations ran one by one.
struct EagerFigures {
  int64_t operations = 0;
  double seconds = 0, traced_seconds = 0;  // predicted minimum: one by one, and as traced graphs
  const Graph* newest = nullptr;           // newest compiled graph; null: none
};
std::vector<std::string> eager_analysis_of(const std::deque<Graph>& graphs, int64_t batches,
                                           const EagerFigures& figures);

}  // namespace runner::backends::tpu
