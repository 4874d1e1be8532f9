// Event count: threads or processes sleep until a condition may have become true. A notification is never lost.
//
// A waiting thread reads the count, checks its condition, and sleeps only while the count is unchanged. The writer
// makes the condition true and then notifies. A notification costs an atomic addition and a load if no thread sleeps.
// Works in shared memory, where zeroed bytes are a valid initial state. Thread safety: any thread may call any function
// at any time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace runner::backends {

static_assert(std::atomic<uint32_t>::is_always_lock_free, "the kernel sees nothing but the word itself");

// Sleeps in the kernel while `word` is `value`, until it is woken or `most` has passed; may also return spuriously.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t value, std::optional<std::chrono::nanoseconds> most = {});
void wake_sleepers(std::atomic<uint32_t>& word);

class EventCount {
 public:
  uint32_t count() const { return count_.load(std::memory_order_acquire); }
  bool has_changed_since(uint32_t count) const { return this->count() != count; }

  // A sleeper increments `sleepers_` and then reads `count_`; a notifier increments `count_` and then reads
  // `sleepers_`. All four accesses are sequentially consistent, so at least one sees the other's write.
  void notify_all() {
    count_.fetch_add(1);
    if (sleepers_.load() > 0) wake_sleepers(count_);
  }
  // Returns after a notification since `count` was read, or after `timeout`; may also return spuriously.
  void wait(uint32_t count, std::optional<std::chrono::nanoseconds> timeout = {}) {
    sleepers_.fetch_add(1);
    if (count_.load() == count) sleep_on(count_, count, timeout);
    sleepers_.fetch_sub(1);
  }
  // Returns when `done` is true. Every change that can make it true must be followed by a notification.
  template <class Done>
  void wait_until(const Done& done) {
    for (uint32_t before = count(); !done(); before = count()) wait(before);
  }
  // Like wait_until(), but returns false if `done` is still false after `timeout`.
  template <class Done>
  bool wait_until(const Done& done, std::chrono::nanoseconds timeout) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + timeout;
    for (;;) {
      const uint32_t before = count();
      if (done()) return true;
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - Clock::now());
      if (left.count() <= 0) return false;
      wait(before, left);
    }
  }

 private:
  alignas(64) std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace runner::backends
