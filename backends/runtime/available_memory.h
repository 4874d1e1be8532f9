// Memory still available to this process.
#pragma once

#include <cstddef>

namespace runner::backends {

// Bytes that the machine has free or can free, including swap, within the limits of the process's control groups and of
// its address space (RLIMIT_AS). Returns the maximum of size_t if the limits are unknown.
size_t available_memory();

// Throws Error(kRun) if `bytes` for tensors, of which `taken` are allocated, exceed the available memory. Small sizes
// are not checked.
void check_available(size_t bytes, size_t taken = 0);

}  // namespace runner::backends
