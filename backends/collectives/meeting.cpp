#include "backends/collectives/meeting.h"

#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/runtime/spin.h"

namespace runner::backends {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(20);
constexpr int kSpinsPerLook = 64;  // at the clock
// A sleeper looks around this often: whoever fails may do so between its last look and its sleep.
constexpr auto kNap = std::chrono::milliseconds(50);

static_assert(std::atomic<uint32_t>::is_always_lock_free, "other processes see nothing but the word itself");

// Sleeps while `word` is `value`, at most for a nap.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t value) {
  constexpr auto kNanoseconds = std::chrono::nanoseconds(kNap).count();
  const timespec nap{.tv_sec = 0, .tv_nsec = kNanoseconds};
  ::syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT, value, &nap, nullptr, 0);
}

}  // namespace

bool Meeting::waits(uint32_t generation) const {
  return generation_.load() == generation && !has_failed();
}

void Meeting::wake_all() {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&generation_), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// The last to come counts `generation_` up, then looks for sleepers; a sleeper counts itself, then looks at
// `generation_`.  All four are sequentially consistent, so that one of the two sees the other.
Meeting::Outcome Meeting::meet(int size, bool spin, std::chrono::milliseconds timeout) {
  if (has_failed()) return Outcome::kFailed;
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) wake_all();
    return Outcome::kMet;
  }
  const Clock::time_point began = Clock::now();
  while (spin && waits(generation) && Clock::now() - began < kSpin)
    for (int i = 0; i < kSpinsPerLook && generation_.load(std::memory_order_relaxed) == generation; ++i) spin_pause();
  sleepers_.fetch_add(1);
  bool in_time = true;
  while (waits(generation) && (in_time = Clock::now() - began < timeout)) sleep_on(generation_, generation);
  sleepers_.fetch_sub(1);
  if (generation_.load(std::memory_order_acquire) != generation) return Outcome::kMet;
  return in_time ? Outcome::kFailed : Outcome::kTimeout;
}

void Meeting::fail(int rank) {
  uint32_t none = 0;
  if (failed_.compare_exchange_strong(none, static_cast<uint32_t>(rank) + 1)) wake_all();
}

}  // namespace runner::backends
