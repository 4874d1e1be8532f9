// Cores that a process may use, and binding of threads to them. Thread-safe.
#pragma once

#include <vector>

#include <sched.h>

namespace runner::backends {

// Returns the cores that the calling thread may run on, in ascending order.
std::vector<int> usable_core_ids();
// Their number, at least 1.
int usable_cores();

// Divides `cores` among processes: contiguous ranges whose sizes differ by at most one. If there are fewer cores than
// processes, each gets one core, in round-robin order.
std::vector<std::vector<int>> shares_of_cores(const std::vector<int>& cores, int processes);

// While an object exists, the calling thread and threads that it starts run only on these cores (empty: unrestricted).
// Throws Error(kRun) if the system does not allow it.
class PinnedThread {
 public:
  explicit PinnedThread(const std::vector<int>& cores);
  ~PinnedThread();
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;

 private:
  const bool pinned_;
  cpu_set_t before_;
};

}  // namespace runner::backends
