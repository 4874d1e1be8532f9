// The processes of a run with several ranks. Rank 0 is this process; the others are started here from the same program.
//
// If a process dies, every rank that waits for it throws Error(kRun), which says how the process died and its last
// collective. The kernel kills all ranks when rank 0 ends. The shared memory has no name, so nothing remains.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/dist/process_group.h"

namespace runner::train {

struct ReplicaOptions {
  std::string_view job;  // passed to the other ranks, see ReplicaProcess::job()
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // collective_timeout
  std::string program = "/proc/self/exe";                         // executable of the other ranks
  const std::atomic<int>* stop = nullptr;  // if not 0, the other ranks are stopped; null: no stop requests
};

class ReplicaProcesses {
 public:
  // Starts ranks 1 … size − 1, which die with the calling thread. If stopped before begin(), starts no more ranks, and
  // waiting for missing ranks throws Error(kRun). Throws Error(kRun) if a process cannot be started; none remains then.
  ReplicaProcesses(int size, const ReplicaOptions& options);
  // Kills processes that still run.
  ~ReplicaProcesses();
  ReplicaProcesses(const ReplicaProcesses&) = delete;
  ReplicaProcesses& operator=(const ReplicaProcesses&) = delete;

  backends::ProcessGroup& collectives();
  // Call when all ranks have started: from now on, the training loops handle `stop`. Returns false if it was set
  // before.
  bool begin();
  bool stopped_at_start() const;
  // Whether another rank was killed by a signal: out of memory, a crash, or kill.
  bool lost_one() const;
  // Waits up to 10 s for the other ranks to exit. Call when all are done.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A rank other than 0, in its own process.
class ReplicaProcess {
 public:
  // `words`: command line arguments from ReplicaProcesses, after kReplicaWord.
  explicit ReplicaProcess(std::span<const std::string> words);
  ~ReplicaProcess();

  backends::ProcessGroup& collectives();
  // Returns ReplicaOptions::job.
  std::string job() const;
  // Mirrors ReplicaOptions::stop of rank 0, with a short delay.
  const std::atomic<int>& stop() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// First argument of such a command line.
inline constexpr const char* kReplicaWord = "--replica";

}  // namespace runner::train
