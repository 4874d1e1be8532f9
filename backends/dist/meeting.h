// Barrier in shared memory.
//
// A waiting rank spins for up to 20 µs if each rank has a core of its own; otherwise it yields its core for a short
// time. Then it sleeps in the kernel until the last rank arrives or a rank fails. Zeroed memory is a valid initial
// state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "backends/runtime/courtesy.h"

namespace runner::backends {

class Meeting {
 public:
  enum class Outcome { kMet, kFailed, kTimeout };

  // Waits for all ranks. `courtesy`: of this rank if it shares its core; null: it spins. Everything that a rank wrote
  // before it arrived is visible to all ranks afterwards.
  Outcome meet(int size, Courtesy* courtesy, std::chrono::milliseconds timeout);

  // Ends all waits, now and later. The first failing rank is recorded; what it wrote before is visible to all.
  void fail(int rank);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }
  // The failed rank.
  int failed_rank() const { return static_cast<int>(failed_.load(std::memory_order_acquire)) - 1; }

 private:
  using Clock = std::chrono::steady_clock;
  bool waits(uint32_t generation) const;
  bool is_over_soon(uint32_t generation, Courtesy* courtesy) const;
  bool sleep(uint32_t generation, Clock::time_point end);

  alignas(64) std::atomic<uint32_t> generation_;  // number of completed barriers; waiting ranks sleep on it
  std::atomic<uint32_t> sleepers_;
  std::atomic<uint32_t> failed_;  // rank + 1; 0: none has failed
  alignas(64) std::atomic<uint32_t> arrived_;
};

}  // namespace runner::backends
