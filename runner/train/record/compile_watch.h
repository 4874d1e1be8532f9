// Tells an observer of a graph that takes long to compile, while it is compiled and when it is done.
//
// A thread of its own waits, so that nobody who compiles must look at a clock; it calls the observer only while the
// training thread compiles, so that the observer has one caller at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backends/tpu/compile_listener.h"
#include "runner/train/run.h"

namespace runner::train {

class CompileWatch : public backends::tpu::CompileListener {
 public:
  // `patience`: how long a graph may take before it is told of; 0: each is.  The observer must outlive the watch.
  CompileWatch(Observer& observer, std::chrono::milliseconds patience);
  ~CompileWatch() override;

  void begun(std::function<std::string()> what) override;
  void ended() override;

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void tell();  // with the mutex

  Observer& observer_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::function<std::string()> what_;       // is compiled
  std::optional<Clock::time_point> begun_;  // none: nothing is compiled
  bool told_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace runner::train
