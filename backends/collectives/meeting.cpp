#include "backends/collectives/meeting.h"

#include "backends/runtime/futex.h"
#include "backends/runtime/spin.h"

namespace runner::backends {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSpin = std::chrono::microseconds(20);
constexpr int kSpinsPerLook = 64;  // at the clock
// A sleeper looks around this often: whoever fails may do so between its last look and its sleep.
constexpr auto kNap = std::chrono::milliseconds(50);

}  // namespace

bool Meeting::waits(uint32_t generation) const {
  return generation_.load() == generation && !has_failed();
}

// The last to come counts `generation_` up, then looks for sleepers; a sleeper counts itself, then looks at
// `generation_`.  All four are sequentially consistent, so that one of the two sees the other.
Meeting::Outcome Meeting::meet(int size, bool spin, std::chrono::milliseconds timeout) {
  if (has_failed()) return Outcome::kFailed;
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) wake_sleepers(generation_);
    return Outcome::kMet;
  }
  const Clock::time_point began = Clock::now();
  while (spin && waits(generation) && Clock::now() - began < kSpin)
    for (int i = 0; i < kSpinsPerLook && generation_.load(std::memory_order_relaxed) == generation; ++i) spin_pause();
  sleepers_.fetch_add(1);
  bool in_time = true;
  while (waits(generation) && (in_time = Clock::now() - began < timeout)) sleep_on(generation_, generation, kNap);
  sleepers_.fetch_sub(1);
  if (generation_.load(std::memory_order_acquire) != generation) return Outcome::kMet;
  return in_time ? Outcome::kFailed : Outcome::kTimeout;
}

void Meeting::fail(int rank) {
  uint32_t none = 0;
  if (failed_.compare_exchange_strong(none, static_cast<uint32_t>(rank) + 1)) wake_sleepers(generation_);
}

}  // namespace runner::backends
