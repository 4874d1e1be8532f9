// Backoff for threads that share cores: yields the core for a short time before the thread sleeps.
//
// If there are more threads than cores, the awaited thread may be next in the run queue; yielding costs less than half
// of a sleep and wake-up. But the system may give the core to an unrelated thread for milliseconds. After such a late
// return, the next waits sleep at once: twice as many after each late return, one less after each wait that was not
// late. Not thread-safe; each waiting thread has its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <sched.h>

namespace runner::backends {

class Backoff {
 public:
  // A few times more than threads that wait for each other need to get their turns.
  static constexpr int kMaxTimes = 16;
  // Longer than a small step of another thread, and shorter than a time slice of a thread that does not wait.
  static constexpr auto kLate = std::chrono::microseconds(300);
  // Number of waits that sleep at once.
  static constexpr int32_t kMinPause = 512, kMaxPause = 8192;

  // Returns whether `done` becomes true within a short time.
  template <class Done>
  bool wait(const Done& done) {
    if (done()) return true;
    if (pause_ > 0) {
      --pause_;
      return false;
    }
    bool is_done = false;
    for (int times = 0; times < kMaxTimes && !is_done; ++times) {
      const auto left = Clock::now();
      ::sched_yield();
      is_done = done();
      if (Clock::now() - left > kLate) {
        pause_ = next_pause_;
        next_pause_ = std::min(2 * next_pause_, kMaxPause);
        return is_done;
      }
    }
    next_pause_ = std::max(next_pause_ - 1, kMinPause);
    return is_done;
  }

 private:
  using Clock = std::chrono::steady_clock;

  int32_t pause_ = 0, next_pause_ = kMinPause;
};

}  // namespace runner::backends
