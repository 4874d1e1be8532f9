// Collects warnings from several threads until one thread reports them.
//
// take() only reads a flag if there are none. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace runner::store {

class WarningList {
 public:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    texts_.push_back(std::move(text));
    any_.store(true, std::memory_order_release);
  }

  // Returns the warnings added since the last call.
  std::vector<std::string> take() {
    if (!any_.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_release);
    return std::exchange(texts_, {});
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

}  // namespace runner::store
