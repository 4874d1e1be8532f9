// A thread that runs one job at a time for its owner, which continues meanwhile.
//
// Handing over a job costs less than a microsecond if jobs follow each other closely: the thread spins for a short time
// before it sleeps. If the thread has not started a job when the owner waits for it, because cores are busy, the owner
// runs it. Thread safety: one thread, the owner, calls start(), finish() and is_busy().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "backends/runtime/event_count.h"

namespace runner::backends {

class ExecutionThread {
 public:
  // `job`: called once per start(), must not throw. `name`: for traces.
  ExecutionThread(std::function<void()> job, std::string name);
  // Completes a started job first.
  ~ExecutionThread();
  ExecutionThread(const ExecutionThread&) = delete;
  ExecutionThread& operator=(const ExecutionThread&) = delete;

  // No job may be in flight. Writes of the owner before the call are visible to the job.
  void start();
  // Returns when no job is in flight; writes of the job are then visible to the owner. Returns false if the owner ran
  // it.
  bool finish();
  bool is_busy() const { return state_.load(std::memory_order_acquire) != kIdle; }

 private:
  enum State : uint32_t { kIdle, kStarted, kRunning, kStopped };

  void work();
  bool run_if_started();
  void set_state(State state);
  void wait_for_change(State seen);

  const std::function<void()> job_;
  alignas(64) std::atomic<State> state_{kIdle};
  EventCount changed_;  // notified after each change of state_ that a thread waits for
  std::thread thread_;  // last, since it uses all of the above
};

}  // namespace runner::backends
