// RUNNER_DEBUG=0…4: level of debug output on stderr.
#pragma once

#include <string>

namespace runner::backends {

inline constexpr int kDebugPlans = 1;    // one line per plan built
inline constexpr int kDebugKernels = 2;  // in addition, its steps with kernels and bytes
inline constexpr int kDebugGroups = 3;   // in addition, the fused groups
inline constexpr int kDebugPasses = 4;   // in addition, the Program after each pass, verified

// Read from the environment once; 0 if unset or not a number.
int debug_level();

// Writes to stderr; ignores errors.
void debug_print(const std::string& text);

}  // namespace runner::backends
