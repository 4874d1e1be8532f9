// Notifies an observer of graphs that take long to compile: during the compilation and at its end.
//
// A thread of its own waits, so that compiling code need not check a clock. It calls the observer only while the
// training thread compiles, so that the observer has one caller at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backends/tpu/tpu_device_model.h"
#include "runner/train/run/run.h"

namespace runner::train {

class CompileWatch : public backends::tpu::CompileListener {
 public:
  // `patience`: how long a graph may take before it is reported; 0 reports each. `observer` must outlive the object.
  CompileWatch(Observer& observer, std::chrono::milliseconds patience);
  ~CompileWatch() override;

  void begun(std::function<std::string()> what) override;
  void ended() override;

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void notify();  // requires the mutex

  Observer& observer_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::function<std::string()> what_;       // description of the graph being compiled
  std::optional<Clock::time_point> begun_;  // none: nothing is being compiled
  bool notified_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace runner::train
