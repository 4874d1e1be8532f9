// On which cores threads run.  Thread-safe.
#pragma once

#include <vector>

#include <sched.h>

namespace runner::backends {

// By number, those that the calling thread may run on.
std::vector<int> usable_core_ids();

// What each of `processes` gets of `cores`: as many as the others or one more, neighbours together; where there are
// fewer cores than processes, one, in turn.
std::vector<std::vector<int>> shares_of_cores(const std::vector<int>& cores, int processes);

// While one lives, the calling thread, and threads that it starts meanwhile, run on these cores alone (none: where they
// like).  Throws Error(kRun) where the system does not let them.
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
