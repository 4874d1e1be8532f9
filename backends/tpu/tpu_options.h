// Options of an emulated TPU.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/tpu/dialect.h"
#include "backends/tpu/lowered_graph.h"

namespace runner::backends::tpu {

struct TpuOptions {
  int threads = 1;  // host threads that compute
  Hardware hardware = {};
  // Batches between step markers. 1: a graph ends with each Program. 0: it ends at step markers of the user's code.
  int64_t batches_per_mark = 1;
  bool tracks_graphs = true;        // of graphs; one rank does, since all ranks have the same
  bool own_thread = false;          // executes concurrently with the submitting thread: the process has a core for it
  bool waits_at_mark_step = false;  // until the graph has run
  bool eager = false;               // operations are compiled and run one by one, and submit() is synchronous
  Dialect dialect = Dialect::kXla2;
  std::optional<int64_t> max_graphs = {};  // graphs that may be compiled; none: no limit
};

}  // namespace runner::backends::tpu
