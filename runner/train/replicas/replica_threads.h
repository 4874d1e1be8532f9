// The replicas of a run that are threads of this process: rank 0 is the calling thread, the others are started here.
//
// They have one copy of the data and of all that does not change, and meet as processes do (replica_processes.h).  A
// rank that throws tells the others, which throw where they wait for it; one that must come to an end without waiting
// asks its collectives whether any has failed.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "backends/collectives/shared_collectives.h"
#include "backends/collectives/shared_memory.h"

namespace runner::train {

class ReplicaThreads {
 public:
  // Starts ranks 1 … size − 1, each of which calls `follow`.  What it throws it has told the others before.  Throws
  // Error(kRun) where the system has no more threads.
  ReplicaThreads(int size, std::chrono::milliseconds timeout,
                 const std::function<void(backends::Collectives& ranks)>& follow);
  // Nobody waits any more for rank 0, and it waits for the others to come to their end.
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  // Of rank 0.
  backends::Collectives& collectives() { return collectives_; }

 private:
  void start(int rank, int size, const backends::SharedCollectives::Options& options,
             const std::function<void(backends::Collectives& ranks)>& follow);
  void end();

  backends::SharedMemory memory_;
  backends::SharedCollectives collectives_;
  std::vector<std::thread> threads_;
};

}  // namespace runner::train
