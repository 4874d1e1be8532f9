// How much memory this process may still take.
#pragma once

#include <cstddef>

namespace runner::backends {

// In bytes: what the machine has free or can free, swap included, within the limit of the process's control group.
// The largest number where the system does not say.
size_t available_memory();

}  // namespace runner::backends
