// Barrier in shared memory.
//
// A waiting rank spins for up to 20 µs if each rank has a core of its own; otherwise it yields its core for a short
// time. Then it sleeps in the kernel until the last rank arrives or a rank fails. Zeroed memory is a valid initial
// state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "backends/runtime/backoff.h"
#include "backends/runtime/event_count.h"

namespace runner::backends {

class Barrier {
 public:
  enum class Outcome { kPassed, kFailed, kTimeout };

  // Waits for all ranks. `backoff`: of this rank if it shares its core; null: it spins. Everything that a rank wrote
  // before it arrived is visible to all ranks afterwards.
  Outcome wait(int size, Backoff* backoff, std::chrono::milliseconds timeout);

  // Ends all waits, now and later. The first failing rank is recorded; what it wrote before is visible to all.
  void fail(int rank);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }
  // The failed rank.
  int failed_rank() const { return static_cast<int>(failed_.load(std::memory_order_acquire)) - 1; }

 private:
  alignas(64) std::atomic<uint32_t> generation_;  // number of completed barriers
  std::atomic<uint32_t> failed_;                  // rank + 1; 0: none has failed
  EventCount changed_;                            // notified after a change of the members above
  alignas(64) std::atomic<uint32_t> arrived_;
};

}  // namespace runner::backends
