// Watches processes that this one has not started, and limits how long this one takes to end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/runtime/descriptor.h"

namespace runner::train {

// Calls `on_end` once, on its own thread, when one of the processes has ended.
class ProcessWatch {
 public:
  // `pids`: of this machine; 0: not watched. `on_end` gets the index of the process. Throws Error(kRun) if the system
  // has no descriptors left.
  ProcessWatch(const std::vector<int64_t>& pids, std::function<void(size_t index)> on_end);
  // Does not call `on_end` any more.
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

 private:
  const backends::Descriptor stop_;
  std::vector<backends::Descriptor> handles_;
  std::thread thread_;
};

// Exits the process with `exit_code`, or 1 in place of 0, if the object still exists after `limit`.
class Deadline {
 public:
  Deadline(std::chrono::milliseconds limit, int exit_code);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace runner::train
