// A thread that does one job at a time for another one, which goes on meanwhile.
//
// Handing a job over costs less than a microsecond where jobs follow each other: the thread spins for a short while
// before it sleeps.  A job that it has not begun when its owner waits for it, since cores are busy elsewhere, is done
// by the owner.  Thread safety: one thread, the owner, calls start(), finish() and is_busy().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace runner::backends {

class ExecutionThread {
 public:
  // `job` is called once for each start(), and must not throw.  `name`: in traces.
  ExecutionThread(std::function<void()> job, std::string name);
  // A job that has been started is done first.
  ~ExecutionThread();
  ExecutionThread(const ExecutionThread&) = delete;
  ExecutionThread& operator=(const ExecutionThread&) = delete;

  // No job is under way.  What the owner has written before, the job sees.
  void start();
  // Returns when no job is under way; what the job has written, the owner sees then.  False: the owner has done it.
  bool finish();
  bool is_busy() const { return state_.load(std::memory_order_acquire) != kIdle; }

 private:
  enum State : uint32_t { kIdle, kStarted, kRunning, kStopped };

  void work();
  bool run_if_started();

  const std::function<void()> job_;
  alignas(64) std::atomic<uint32_t> state_{kIdle};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace runner::backends
