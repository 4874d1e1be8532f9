// The process group of ranks that are processes with shared memory, and their start.
//
// If a process dies, every rank that waits for it throws Error(kRun), which says how the process died and its last
// collective. The shared memory has no name, so nothing remains.
#pragma once

#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "backends/dist/shared_memory.h"
#include "backends/dist/shared_memory_group.h"
#include "runner/train/run/rank_launcher.h"

namespace runner::train {

struct RankOptions {
  std::string_view job;                                           // passed to the other ranks, see LaunchedRank::job()
  std::chrono::milliseconds timeout = std::chrono::seconds(600);  // collective_timeout
  std::string program = "/proc/self/exe";                         // executable of the other ranks
  const std::atomic<int>* stop = nullptr;                         // see RankLauncher::Options
};

// Rank 0, which has started the others.
class RankProcesses {
 public:
  // If stopped before launcher().begin(), waiting for missing ranks throws Error(kRun). Throws like RankLauncher.
  RankProcesses(int size, const RankOptions& options);

  backends::ProcessGroup& group() { return group_; }
  RankLauncher& launcher() { return launcher_; }

 private:
  void report(const RankEnd& end);

  backends::SharedMemory memory_;
  backends::SharedMemoryGroup group_;
  RankLauncher launcher_;  // last, since its thread uses the group
};

// A rank other than 0, in its own process.
class RankProcess {
 public:
  // `words`: command line arguments after kRankWord.
  explicit RankProcess(std::span<const std::string> words);

  backends::ProcessGroup& group() { return group_; }
  const LaunchedRank& launched() const { return launched_; }

 private:
  const LaunchedRank launched_;
  backends::SharedMemory memory_;
  backends::SharedMemoryGroup group_;
};

}  // namespace runner::train
