// Counts page faults of all threads or of the calling thread. Always 0 under a sanitizer, which causes page faults
// itself.
#pragma once

#include <cstdint>

#include <sys/resource.h>

namespace runner::support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kFaultsAreOurs = false;
#else
inline constexpr bool kFaultsAreOurs = true;
#endif

inline int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return kFaultsAreOurs ? usage.ru_minflt + usage.ru_majflt : 0;
}

inline int64_t page_faults_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return kFaultsAreOurs ? usage.ru_minflt + usage.ru_majflt : 0;
}

}  // namespace runner::support
