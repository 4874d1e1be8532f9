// The time of each kernel of a process: RUNNER_DEBUG=2 prints it at the end of a run.
#pragma once

#include <cstdint>
#include <string>

namespace runner::backends {

// Adds a run of a kernel. Runs of the same name are added up. Any thread may call it.
void add_kernel_time(const std::string& name, int64_t ns, int64_t flops, int64_t bytes);

// Returns a table of the kernels that ran since the last call, the longest time first: share of the time, runs, µs a
// run, GF/s, GB/s, kernel. Empty if none ran.
std::string take_kernel_times();

}  // namespace runner::backends
