// What a graph is there for, as its results tell: graphs are compared with others of their role alone.
//
// Thread-safe.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"

namespace runner::backends::tpu {

enum class GraphRole : uint8_t {
  kUpdate,   // it leaves parameters, gradients or moments behind: a step of training, or a part of one
  kForward,  // it does not: an evaluation
  kRead,     // a value that the host reads is all that it computes
};

GraphRole role_of(const Program& graph);

}  // namespace runner::backends::tpu
