// An event in a stream, counted each time it is recorded.
//
// The event reaches a count when all work before that recording, or a later one, is complete; it then wakes the waiting
// devices and its own host. Thread safety: only the host of its device records it; any thread may query it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/runtime/event_count.h"

namespace runner::backends::gpu {

class StreamEvent : public backends::Event, public std::enable_shared_from_this<StreamEvent> {
 public:
  // `device`: name of the device whose streams may record the event.
  explicit StreamEvent(std::string device) : device_(std::move(device)) {}
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  const std::string& device() const { return device_; }
  bool has_reached(uint64_t count) const { return reached_.load(std::memory_order_acquire) >= count; }

  // Number of recordings. Only for the device's host.
  uint64_t recorded() const { return recorded_; }
  uint64_t count_recording() { return ++recorded_; }

  // Called by the device when it passes the event; wakes the waiting threads.
  void reach(uint64_t count) {
    const std::lock_guard lock(mutex_);
    if (!has_reached(count)) reached_.store(count, std::memory_order_release);
    for (const std::shared_ptr<EventCount>& each : listeners_) each->notify_all();
    listeners_.clear();
  }
  // Returns whether the event has reached `count`. If not, `listener` is notified when it next advances.
  bool has_reached_or_notifies(uint64_t count, const std::shared_ptr<EventCount>& listener) {
    const std::lock_guard lock(mutex_);
    if (has_reached(count)) return true;
    if (std::ranges::find(listeners_, listener) == listeners_.end()) listeners_.push_back(listener);
    return false;
  }

 private:
  const std::string device_;
  uint64_t recorded_ = 0;
  std::atomic<uint64_t> reached_{0};
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<EventCount>> listeners_;
};

}  // namespace runner::backends::gpu
