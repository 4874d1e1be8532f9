// Verifies the invariants of Programs: after each pass in tests and with RUNNER_DEBUG=4.
#pragma once

#include <string>

#include "backends/ir/program.h"

namespace runner::backends {

// Returns an empty string if the Program is well formed, else the first fault: an operand that is not computed before
// its use, a type that the type rule does not give, an input that is not in the input list, or two outputs for one
// state.
std::string verify(const Program& program);

}  // namespace runner::backends
