// Waiting for threads that need this core: it is left to them for a short while, before one sleeps.
//
// Where threads are more than cores, whom one waits for may be next in line; to leave the core costs less than half of
// what sleeping and being woken does.  But the system may give it to whoever else wants it, for milliseconds.  Who gets
// it back late therefore sleeps at once in the next waits: each time in twice as many, and one less for each wait that
// was not late.  Not thread-safe; each thread that waits has one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <sched.h>

namespace runner::backends {

class Courtesy {
 public:
  // A few times more than threads that wait for each other need to get their turns.
  static constexpr int kMostTimes = 16;
  // What others need for a small step of theirs, and less than the system lets anybody compute who does not wait.
  static constexpr auto kLate = std::chrono::microseconds(300);
  // Waits that sleep at once.
  static constexpr int32_t kFewest = 512, kMost = 8192;

  // Whether it is done within a short while.
  template <class Done>
  bool wait(const Done& done) {
    if (done()) return true;
    if (pause_ > 0) {
      --pause_;
      return false;
    }
    bool is_done = false;
    for (int times = 0; times < kMostTimes && !is_done; ++times) {
      const auto left = Clock::now();
      ::sched_yield();
      is_done = done();
      if (Clock::now() - left > kLate) {
        pause_ = next_pause_;
        next_pause_ = std::min(2 * next_pause_, kMost);
        return is_done;
      }
    }
    next_pause_ = std::max(next_pause_ - 1, kFewest);
    return is_done;
  }

 private:
  using Clock = std::chrono::steady_clock;

  int32_t pause_ = 0, next_pause_ = kFewest;
};

}  // namespace runner::backends
