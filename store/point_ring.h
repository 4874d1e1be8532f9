// The way of a metric point from the training thread to the writer thread: a bounded ring.
//
// One thread pushes and one thread drains; neither waits, allocates or makes a system call.  The memory is touched when
// the ring is made, so that no push meets a page fault.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schema/error.h"
#include "store/codec.h"

namespace runner::store {

class PointRing {
 public:
  struct Entry {
    int32_t series = 0;
    Point point;
  };

  // `capacity`: a power of two.
  explicit PointRing(size_t capacity) : entries_(capacity), mask_(capacity - 1), next_look_(capacity / 2) {
    RUN_ASSERT(capacity > 1 && (capacity & mask_) == 0);
  }

  size_t capacity() const { return entries_.size(); }
  // Entries ever pushed; for any thread.
  int64_t pushed() const { return static_cast<int64_t>(end_.load(std::memory_order_relaxed)); }

  // False: full, and nothing was stored.
  bool push(const Entry& entry) noexcept {
    const size_t end = end_.load(std::memory_order_relaxed);
    if (end - known_begin_ == capacity()) {
      known_begin_ = begin_.load(std::memory_order_acquire);
      if (end - known_begin_ == capacity()) return false;
    }
    entries_[end & mask_] = entry;
    end_.store(end + 1, std::memory_order_release);
    return true;
  }

  // For the pushing thread, after each push: whether the ring is at least half full.  Looks only now and then, so that
  // while it stays that full the answer is yes once for every eighth of the ring.
  bool half_full() noexcept {
    const size_t end = end_.load(std::memory_order_relaxed);
    if (end < next_look_) return false;
    known_begin_ = begin_.load(std::memory_order_acquire);
    const bool is_half_full = end - known_begin_ >= capacity() / 2;
    next_look_ = is_half_full ? end + capacity() / 8 : known_begin_ + capacity() / 2;
    return is_half_full;
  }

  // Hands what was pushed before the call to `take(entry)`, at most `limit` entries.  Returns how many.
  template <class Take>
  size_t drain(size_t limit, Take&& take) {
    const size_t begin = begin_.load(std::memory_order_relaxed);
    const size_t available = end_.load(std::memory_order_acquire) - begin;
    const size_t count = available < limit ? available : limit;
    for (size_t i = 0; i < count; ++i) take(entries_[(begin + i) & mask_]);
    begin_.store(begin + count, std::memory_order_release);
    return count;
  }

 private:
  static constexpr size_t kCacheLine = 64;  // each side writes to lines of its own

  std::vector<Entry> entries_;
  size_t mask_;
  alignas(kCacheLine) std::atomic<size_t> end_{0};    // entries ever pushed
  size_t known_begin_ = 0;                            // what the pushing thread last saw of begin_
  size_t next_look_;                                  // when it looks again
  alignas(kCacheLine) std::atomic<size_t> begin_{0};  // entries ever drained
};

}  // namespace runner::store
