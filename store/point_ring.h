// Bounded lock-free ring that passes metric points from the training thread to the writer thread.
//
// One thread pushes and one thread drains. Neither blocks, allocates or makes a system call. The constructor touches
// the whole buffer, so that push() causes no page faults.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "schema/base/error.h"
#include "store/point.h"

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
  // Number of entries pushed so far. Any thread may call it.
  int64_t pushed() const { return static_cast<int64_t>(end_.load(std::memory_order_relaxed)); }

  // Returns false, and stores nothing, if the ring is full.
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

  // Returns whether the ring is at least half full. The pushing thread calls it after each push. The consumer's
  // position is read only at intervals: while the ring stays half full, this returns true once per capacity() / 8
  // pushes.
  bool half_full() noexcept {
    const size_t end = end_.load(std::memory_order_relaxed);
    if (end < next_look_) return false;
    known_begin_ = begin_.load(std::memory_order_acquire);
    const bool is_half_full = end - known_begin_ >= capacity() / 2;
    next_look_ = is_half_full ? end + capacity() / 8 : known_begin_ + capacity() / 2;
    return is_half_full;
  }

  // Passes the entries pushed before this call to `take(entry)`, at most `limit` of them. Returns how many.
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
  static constexpr size_t kCacheLine = 64;  // keeps the members of producer and consumer on separate lines

  std::vector<Entry> entries_;
  size_t mask_;
  alignas(kCacheLine) std::atomic<size_t> end_{0};    // number of entries pushed
  size_t known_begin_ = 0;                            // last value of begin_ that the producer has read
  size_t next_look_;                                  // value of end_ at which half_full() reads begin_ again
  alignas(kCacheLine) std::atomic<size_t> begin_{0};  // number of entries drained
};

}  // namespace runner::store
