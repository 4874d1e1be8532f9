// How much memory this process may still take.
#pragma once

#include <cstddef>

namespace runner::backends {

// In bytes: what the machine has free or can free, swap included, within the limit of the process's control group.
// The largest number where the system does not say.
size_t available_memory();

// Throws Error(kRun) where memory for tensors is more than that.  Only much memory is looked at.
void check_available(size_t bytes);

}  // namespace runner::backends
