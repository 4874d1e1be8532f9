#include "backends/runtime/affinity.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "schema/base/error.h"

namespace runner::backends {

std::vector<int> usable_core_ids() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

int usable_cores() {
  return std::max(1, static_cast<int>(usable_core_ids().size()));
}

std::vector<std::vector<int>> shares_of_cores(const std::vector<int>& cores, int processes) {
  const auto count = static_cast<int>(cores.size());
  std::vector<std::vector<int>> shares(static_cast<size_t>(processes));
  for (int p = 0; p < processes && count > 0; ++p) {
    const bool scarce = count < processes;
    const int first = scarce ? p % count : count * p / processes;
    const int end = scarce ? first + 1 : count * (p + 1) / processes;
    shares[static_cast<size_t>(p)].assign(cores.begin() + first, cores.begin() + end);
  }
  return shares;
}

PinnedThread::PinnedThread(const std::vector<int>& cores) : pinned_(!cores.empty()) {
  if (!pinned_) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  RUN_CHECK(sched_getaffinity(0, sizeof before_, &before_) == 0 && sched_setaffinity(0, sizeof set, &set) == 0,
            ErrorKind::kRun, "enable_cpu_affinity: cannot set the cores of a process: {}", std::strerror(errno));
}

PinnedThread::~PinnedThread() {
  if (pinned_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace runner::backends
