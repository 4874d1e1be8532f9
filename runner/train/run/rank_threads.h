// The ranks of a run that are threads of this process. Rank 0 is the calling thread; the others are started here.
//
// They share the data and everything immutable, and use the same process group as processes (rank_processes.h). If a
// rank throws, the other ranks throw when they wait for it. A rank that must end without waiting asks its process group
// whether any rank has failed.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"

namespace runner::train {

class RankThreads {
 public:
  // Starts ranks 1 … size − 1; each calls `follow`. Exceptions of `follow` are reported to the other ranks. Throws
  // Error(kRun) if a thread cannot be started.
  RankThreads(int size, std::chrono::milliseconds timeout,
              const std::function<void(backends::ProcessGroup& ranks)>& follow);
  // Makes the other ranks stop waiting for rank 0, and joins their threads.
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Returns the process group of rank 0.
  backends::ProcessGroup& group() { return group_; }

 private:
  void start(int rank, int size, const backends::SharedMemoryGroup::Options& options,
             const std::function<void(backends::ProcessGroup& ranks)>& follow);
  void end();

  backends::SharedMemory memory_;
  backends::SharedMemoryGroup group_;
  std::vector<std::thread> threads_;
};

}  // namespace runner::train
