// The ranks of a run that are threads of this process. Rank 0 is the calling thread; the others are started here.
//
// They share the data and everything immutable, and use the same collectives as processes (replica_processes.h). If a
// rank throws, the other ranks throw when they wait for it. A rank that must end without waiting asks its ProcessGroup
// whether any rank has failed.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"

namespace runner::train {

class ReplicaThreads {
 public:
  // Starts ranks 1 … size − 1; each calls `follow`. Exceptions of `follow` are reported to the other ranks. Throws
  // Error(kRun) if a thread cannot be started.
  ReplicaThreads(int size, std::chrono::milliseconds timeout,
                 const std::function<void(backends::ProcessGroup& ranks)>& follow);
  // Makes the other ranks stop waiting for rank 0, and joins their threads.
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  // Of rank 0.
  backends::ProcessGroup& collectives() { return collectives_; }

 private:
  void start(int rank, int size, const backends::SharedMemoryGroup::Options& options,
             const std::function<void(backends::ProcessGroup& ranks)>& follow);
  void end();

  backends::SharedMemory memory_;
  backends::SharedMemoryGroup collectives_;
  std::vector<std::thread> threads_;
};

}  // namespace runner::train
