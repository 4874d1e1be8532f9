// Event count: threads wait until there may be work; a notification is never lost.
//
// A waiting thread reads the count, looks for work, and sleeps only if the count is unchanged. Notifying costs an
// atomic addition if no thread sleeps. Thread safety: any thread may call any function at any time.
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

  // A sleeper increments `sleepers_` and then reads `rung_`; a notifier increments `rung_` and then reads `sleepers_`.
  // All four accesses are sequentially consistent, so at least one sees the other's write.
  void ring() {
    rung_.fetch_add(1);
    if (sleepers_.load() > 0) wake_sleepers(rung_);
  }
  // Returns after a notification since `heard` or after `most`; may also return spuriously.
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
