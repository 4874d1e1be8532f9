// Counts what operator new hands out in a test binary, and lets it fail; linking runner_allocations replaces it.
//
// What oneDNN allocates inside a call is its own and counted apart.  Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace runner::support {

int64_t allocations();  // by all threads
int64_t allocations_of_this_thread();
int64_t onednn_allocations();  // by all threads; not in the others

// Bytes of the largest allocation since the call before.
size_t take_largest_allocation();

// Of this thread's next allocations, number `which` (from 0) throws std::bad_alloc, or none if it is negative.
void fail_allocation(int64_t which);

}  // namespace runner::support
