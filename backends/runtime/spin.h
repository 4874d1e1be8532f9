// Helpers for busy waiting.
#pragma once

#include <chrono>

namespace runner::backends {

// Hint to the CPU that the thread is spinning.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns whether `done` becomes true within `most`.
template <class Done>
bool spin_until(const Done& done, std::chrono::nanoseconds most) {
  constexpr int kSpinsPerLook = 64;  // between two looks at the clock
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int spin = 0; spin < kSpinsPerLook; ++spin) {
      if (done()) return true;
      spin_pause();
    }
  } while (std::chrono::steady_clock::now() - begin < most);
  return false;
}

}  // namespace runner::backends
