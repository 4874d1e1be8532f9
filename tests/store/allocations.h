// Counts heap allocations: operator new of the whole test program counts for the thread that calls it.
#pragma once

#include <cstdint>

namespace runner::store {

int64_t allocations_of_this_thread();

}  // namespace runner::store
