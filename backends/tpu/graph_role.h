// Role of a graph, derived from its outputs. Graphs are only compared with graphs of the same role.
//
// Thread-safe.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

enum class GraphRole : uint8_t {
  kUpdate,   // leaves new parameters, gradients or moments: a training step or a part of one
  kForward,  // does not: an evaluation
  kRead,     // computes only a value that the host reads
};

GraphRole role_of(const Program& graph);

}  // namespace runner::backends::tpu
