// RUNNER_DEBUG=0…4: how much the engine tells on stderr.
#pragma once

#include <string>

namespace runner::backends {

inline constexpr int kDebugPlans = 1;    // one line for each plan that is built
inline constexpr int kDebugKernels = 2;  // and its steps, kernels, bytes
inline constexpr int kDebugGroups = 3;   // and the fused groups
inline constexpr int kDebugPasses = 4;   // and the Program after each pass, verified

// Read from the environment once; 0 where unset or not a number.
int debug_level();

// Writes to stderr; what cannot be written there is lost.
void debug_print(const std::string& text);

}  // namespace runner::backends
