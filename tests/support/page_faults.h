// Counts page faults of all threads or of the calling thread. Always 0 under a sanitizer, which causes page faults
// itself.
#pragma once

#include <cstdint>

#include <sys/resource.h>

#include "tests/support/sanitizers.h"

namespace runner::support {

inline int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return kSanitized ? 0 : usage.ru_minflt + usage.ru_majflt;
}

inline int64_t page_faults_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return kSanitized ? 0 : usage.ru_minflt + usage.ru_majflt;
}

}  // namespace runner::support
