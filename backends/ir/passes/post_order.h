// A Program in the order in which PyTorch/XLA writes graphs.
#pragma once

#include "backends/ir/program.h"

namespace runner::backends {

// What outputs need, and nothing else, depth first from the outputs; inputs stand where they are first used, and only
// those that are.  An output that replaces a state that is no input any more has none.
Program in_post_order(const Program& program);

}  // namespace runner::backends
