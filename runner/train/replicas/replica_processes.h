// The processes of a run with replicas.  Rank 0 is this process; the others are this program anew, started here.
//
// A process that dies takes the run with it: whoever waits for it throws Error(kRun), which says how it died and where
// it was.  No process outlives rank 0, which the kernel sees to, and the memory that they share has no name.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/collectives/collectives.h"

namespace runner::train {

struct ReplicaOptions {
  std::string_view job;                                           // what each of the others is told to do
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // collective_timeout
  std::string program = "/proc/self/exe";                         // what the other ranks run
  const std::atomic<int>* stop = nullptr;  // not 0: the others are told to stop; null: nobody asks
};

class ReplicaProcesses {
 public:
  // Starts ranks 1 … size − 1, which die with the calling thread.  Throws Error(kRun) where the system cannot, and
  // leaves none behind then.  Where it is asked to stop before begin(), no more are started, and whoever waits for them
  // throws Error(kRun).
  ReplicaProcesses(int size, const ReplicaOptions& options);
  // Ends what still runs.
  ~ReplicaProcesses();
  ReplicaProcesses(const ReplicaProcesses&) = delete;
  ReplicaProcesses& operator=(const ReplicaProcesses&) = delete;

  backends::Collectives& collectives();
  // All are there: from now on the loop looks at `stop`.  False: it was asked to stop before.
  bool begin();
  bool stopped_at_start() const;
  // A signal has ended one of the others: memory that ran out, a crash, somebody's kill.
  bool lost_one() const;
  // All are done: lets the others come to their end, for a while.
  void finish();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A rank other than 0, in its own process.
class ReplicaProcess {
 public:
  // `words`: what ReplicaProcesses has put on the command line.
  explicit ReplicaProcess(std::span<const std::string> words);
  ~ReplicaProcess();

  backends::Collectives& collectives();
  // ReplicaOptions::job.
  std::string job() const;
  // ReplicaOptions::stop of rank 0, a moment later.
  const std::atomic<int>& stop() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The first word of such a command line.
inline constexpr const char* kReplicaWord = "--replica";

}  // namespace runner::train
