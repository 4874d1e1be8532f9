// The rules every Program obeys; run between all passes in tests and with RUNNER_DEBUG.
#pragma once

#include <string>

#include "backends/ir/program.h"

namespace runner::backends {

// Empty if the Program is well formed, else what is wrong: an operand that is not computed before its use, a type that
// the op's rule does not give, an input that is not in the input list, two outputs for one state.
std::string verify(const Program& program);

}  // namespace runner::backends
