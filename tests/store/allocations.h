// Counts heap allocations and lets one fail: operator new of the whole test program does so for the thread that calls
// it.
#pragma once

#include <cstdint>

namespace runner::store {

int64_t allocations_of_this_thread();

// Of this thread's next allocations, number `which` (from 0) throws std::bad_alloc, or none if it is negative.
void fail_allocation(int64_t which);

}  // namespace runner::store
