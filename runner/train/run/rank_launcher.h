// Starts the ranks of a run that are processes, passes on a request to stop, and watches for their ends.
//
// Rank 0 is this process; the others are started here from the same program. The launcher does not know how ranks
// communicate: each started process gets a file descriptor and arguments for its transport. The kernel kills all
// processes when rank 0 ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::train {

// How the process of a rank ended.
struct RankEnd {
  int rank;
  std::string how;    // "was killed by signal 9 (Killed)"
  int64_t megabytes;  // peak memory
};

class RankLauncher {
 public:
  struct Options {
    std::string program;                     // executable of the other ranks
    std::string_view job;                    // see LaunchedRank::job()
    int descriptor;                          // see LaunchedRank::descriptor()
    std::vector<std::string> arguments;      // see LaunchedRank::arguments()
    const std::atomic<int>* stop = nullptr;  // if not 0, the other ranks are stopped; null: no stop requests
    // Called when a process has ended, unless the destructor killed it, and if `stop` is set before begin(). From any
    // thread, also while the constructor runs, but not after the destructor.
    std::function<void(const RankEnd&)> on_end;
    std::function<void()> on_stop_at_start;
  };

  // Starts ranks 1 … size − 1, which die with the calling thread. If stopped before begin(), starts no more ranks.
  // Throws Error(kRun) if a process cannot be started; none remains then.
  RankLauncher(int size, const Options& options);
  // Kills processes that still run.
  ~RankLauncher();
  RankLauncher(const RankLauncher&) = delete;
  RankLauncher& operator=(const RankLauncher&) = delete;

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

// First argument of the command line of a started process.
inline constexpr const char* kRankWord = "--rank";

class RankOrders;

// A started process, seen from inside.
class LaunchedRank {
 public:
  // `words`: command line arguments after kRankWord. This process then dies with its parent.
  explicit LaunchedRank(std::span<const std::string> words);
  ~LaunchedRank();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The file of Options::descriptor, open in this process. The caller owns it.
  int descriptor() const;
  const std::vector<std::string>& arguments() const { return arguments_; }
  std::string job() const;
  // Mirrors Options::stop of rank 0, with a short delay.
  const std::atomic<int>& stop() const;

 private:
  int rank_ = 0, size_ = 0;
  std::vector<std::string> arguments_;
  std::unique_ptr<RankOrders> orders_;
};

}  // namespace runner::train
