#include "backends/dist/barrier.h"

#include "backends/runtime/spin.h"

namespace runner::backends {
namespace {

constexpr auto kSpin = std::chrono::microseconds(20);

}  // namespace

Barrier::Outcome Barrier::wait(int size, Backoff* backoff, std::chrono::milliseconds timeout) {
  if (has_failed()) return Outcome::kFailed;
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(size)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    changed_.notify_all();
    return Outcome::kPassed;
  }
  const auto has_passed = [&] { return generation_.load(std::memory_order_acquire) != generation; };
  const auto is_over = [&] { return has_passed() || has_failed(); };
  const bool in_time = (backoff != nullptr ? backoff->wait(is_over) : spin_until(is_over, kSpin)) ||
                       changed_.wait_until(is_over, timeout);
  if (has_passed()) return Outcome::kPassed;
  return in_time ? Outcome::kFailed : Outcome::kTimeout;
}

void Barrier::fail(int rank) {
  uint32_t none = 0;
  if (failed_.compare_exchange_strong(none, static_cast<uint32_t>(rank) + 1)) changed_.notify_all();
}

}  // namespace runner::backends
