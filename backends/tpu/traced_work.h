// What the user's code does to have a graph run: the operations that it traces, and the batch that it uploads.
//
// PyTorch/XLA traces a step anew each time, so each execution counts.  A Program is by tensors (tensor_graph.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/ir/program.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// "xla::add", …: what op counters are called, by index.
std::vector<std::string> op_counter_names();

struct TracedWork {
  std::vector<std::pair<size_t, int64_t>> ops;  // index of the counter, how many
  std::vector<int64_t> uploads;                 // bytes of each tensor of the batch, as the device has it
};
TracedWork traced_work(const Program& tensor_graph, const DeviceTypes& types);

// One execution of it.
void count(const TracedWork& work, DeviceMetrics& metrics);

}  // namespace runner::backends::tpu
