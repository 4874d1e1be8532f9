// Waiting for the write lock of a store where waiting may be ended.
#pragma once

#include <atomic>

#include "store/store.h"

namespace runner::store {

// Returns when no one else is writing to the store: at once, mostly.  Throws Error(kStore) when another program has
// kept its lock for 10 s, and Error(kInterrupted) within about a second when `stop` becomes positive.
void await_turn(Store& store, const std::atomic<int>& stop);

}  // namespace runner::store
