// Work of the user's code per graph execution: the operations that it traces and the batch that it uploads.
//
// PyTorch/XLA traces a step again each time, so every execution counts. Programs are tensor graphs (tensor_graph.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// Names of the op counters, by index: "xla::add", ….
std::vector<std::string> op_counter_names();

struct TracedWork {
  std::vector<std::pair<size_t, int64_t>> ops;  // index of the counter, number of calls
  std::vector<int64_t> uploads;                 // bytes of each batch tensor, in device types
};
TracedWork traced_work(const Program& tensor_graph, const DeviceTypes& types);

// Adds the counts of one execution to `metrics`.
void count(const TracedWork& work, DeviceMetrics& metrics);

}  // namespace runner::backends::tpu
