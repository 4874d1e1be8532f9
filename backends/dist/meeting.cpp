#include "backends/dist/meeting.h"

#include "backends/runtime/futex.h"
#include "backends/runtime/spin.h"

namespace runner::backends {
namespace {

constexpr auto kSpin = std::chrono::microseconds(20);
constexpr int kSpinsPerLook = 64;  // between two looks at the clock
// A sleeping rank wakes up this often, since a failure may occur between its last check and its sleep.
constexpr auto kNap = std::chrono::milliseconds(50);

}  // namespace

bool Meeting::waits(uint32_t generation) const {
  return generation_.load() == generation && !has_failed();
}

// Whether the barrier completes or a rank fails within a short time.
bool Meeting::is_over_soon(uint32_t generation, Courtesy* courtesy) const {
  if (courtesy != nullptr) return courtesy->wait([&] { return !waits(generation); });
  const Clock::time_point began = Clock::now();
  while (waits(generation) && Clock::now() - began < kSpin)
    for (int i = 0; i < kSpinsPerLook && generation_.load(std::memory_order_relaxed) == generation; ++i) spin_pause();
  return !waits(generation);
}

// Returns false on timeout.
bool Meeting::sleep(uint32_t generation, Clock::time_point end) {
  bool in_time = true;
  sleepers_.fetch_add(1);
  while (waits(generation) && (in_time = Clock::now() < end)) sleep_on(generation_, generation, kNap);
  sleepers_.fetch_sub(1);
  return in_time;
}

// The last rank to arrive increments `generation_` and then reads `sleepers_`; a sleeper increments `sleepers_` and
// then reads `generation_`. All four accesses are sequentially consistent, so at least one sees the other's write.
Meeting::Outcome Meeting::meet(int size, Courtesy* courtesy, std::chrono::milliseconds timeout) {
  if (has_failed()) return Outcome::kFailed;
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1);
    if (sleepers_.load() > 0) wake_sleepers(generation_);
    return Outcome::kMet;
  }
  const Clock::time_point began = Clock::now();
  const bool in_time = is_over_soon(generation, courtesy) || sleep(generation, began + timeout);
  if (generation_.load(std::memory_order_acquire) != generation) return Outcome::kMet;
  return in_time ? Outcome::kFailed : Outcome::kTimeout;
}

void Meeting::fail(int rank) {
  uint32_t none = 0;
  if (failed_.compare_exchange_strong(none, static_cast<uint32_t>(rank) + 1)) wake_sleepers(generation_);
}

}  // namespace runner::backends
