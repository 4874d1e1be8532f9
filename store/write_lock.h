// Interruptible wait for the write lock of a store.
#pragma once

#include <atomic>

#include "store/store.h"

namespace runner::store {

// Blocks until no other process is writing to the store; usually returns at once. Throws Error(kStore) if another
// program holds its lock for 10 s. Throws Error(kInterrupted) within about a second of `stop` becoming nonzero.
void wait_for_write_lock(Store& store, const std::atomic<int>& stop);

}  // namespace runner::store
