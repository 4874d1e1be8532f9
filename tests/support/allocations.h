// Counts allocations by operator new in a test binary and can make them fail. Linking runner_allocations replaces
// operator new.
//
// Allocations inside a oneDNN call are counted separately. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace runner::support {

int64_t allocations();  // of all threads
int64_t allocations_of_this_thread();
int64_t onednn_allocations();  // of all threads; not included in the others

// Returns the size of the largest allocation since the last call, in bytes.
size_t take_largest_allocation();

// Makes allocation number `which` (from 0) of this thread throw std::bad_alloc; negative: none.
void fail_allocation(int64_t which);

}  // namespace runner::support
