// A Program in the order in which PyTorch/XLA prints graphs.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends {

// Returns only the nodes that the outputs depend on, in depth-first order from the outputs, inputs included. An output
// that replaces a state which is no longer an input loses that state.
Program in_post_order(const Program& program);

}  // namespace runner::backends
