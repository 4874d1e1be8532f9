// What threads wait on until there may be something to do: who has it ready rings, and nobody misses it.
//
// A listener notes how often the bell has rung, looks for work, and sleeps only if it has not rung since.  Ringing
// costs an atomic addition where nobody sleeps.  Thread safety: any thread may do anything at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "backends/runtime/futex.h"

namespace runner::backends {

class Bell {
 public:
  uint32_t heard() const { return rung_.load(std::memory_order_acquire); }
  bool has_rung_since(uint32_t heard) const { return rung_.load(std::memory_order_acquire) != heard; }

  // A sleeper counts itself, then looks at `rung_`; a ringer counts `rung_` up, then looks for sleepers.  All four are
  // sequentially consistent, so that one of the two sees the other.
  void ring() {
    rung_.fetch_add(1);
    if (sleepers_.load() > 0) wake_sleepers(rung_);
  }
  // Returns when it has rung since, or after so long; may also return for no reason.
  void sleep(uint32_t heard, std::optional<std::chrono::nanoseconds> most = {}) {
    sleepers_.fetch_add(1);
    if (rung_.load() == heard) sleep_on(rung_, heard, most);
    sleepers_.fetch_sub(1);
  }

 private:
  alignas(64) std::atomic<uint32_t> rung_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace runner::backends
