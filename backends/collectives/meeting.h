// Where ranks meet, in memory that they share: nobody leaves before all have come.
//
// A rank that waits spins for up to 20 µs where each rank has a core of its own, else it leaves its core to the others
// for a short while; then it sleeps in the kernel until the last one comes or someone gives up.  Zeroed memory is a
// Meeting that nobody has come to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "backends/runtime/courtesy.h"

namespace runner::backends {

class Meeting {
 public:
  enum class Outcome { kMet, kFailed, kTimeout };

  // This rank has come.  `courtesy`: of this rank, where it shares its core; null: it spins.  What any rank wrote
  // before it came can be read by all who have met.
  Outcome meet(int size, Courtesy* courtesy, std::chrono::milliseconds timeout);

  // Nobody waits for anybody any more.  The first who says so is kept; what it wrote before can be read by all.
  void fail(int rank);
  bool has_failed() const { return failed_.load(std::memory_order_acquire) != 0; }
  // Who has.
  int failed_rank() const { return static_cast<int>(failed_.load(std::memory_order_acquire)) - 1; }

 private:
  using Clock = std::chrono::steady_clock;
  bool waits(uint32_t generation) const;
  bool is_over_soon(uint32_t generation, Courtesy* courtesy) const;
  bool sleep(uint32_t generation, Clock::time_point end);

  alignas(64) std::atomic<uint32_t> generation_;  // how often all have met; what sleepers wait on
  std::atomic<uint32_t> sleepers_;
  std::atomic<uint32_t> failed_;  // the rank + 1; 0: none has
  alignas(64) std::atomic<uint32_t> arrived_;
};

}  // namespace runner::backends
