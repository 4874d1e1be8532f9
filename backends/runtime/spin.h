// For loops that wait without sleeping.
#pragma once

namespace runner::backends {

// Tells the core that it is in such a loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace runner::backends
