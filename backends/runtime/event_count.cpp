#include "backends/runtime/event_count.h"

#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace runner::backends {

void sleep_on(const std::atomic<uint32_t>& word, uint32_t value, std::optional<std::chrono::nanoseconds> most) {
  timespec nap{};
  if (most) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*most);
    nap = {.tv_sec = seconds.count(), .tv_nsec = (*most - seconds).count()};
  }
  ::syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), FUTEX_WAIT, value, most ? &nap : nullptr, nullptr, 0);
}

void wake_sleepers(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace runner::backends
