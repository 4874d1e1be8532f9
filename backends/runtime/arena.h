// A region of zeroed memory, 64-byte aligned and committed when created, so that a steady-state step has no page
// faults.
#pragma once

#include <cstddef>
#include <utility>

namespace runner::backends {

class Arena {
 public:
  Arena() = default;
  // Throws Error(kRun) with the size if memory is exhausted.
  explicit Arena(size_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Replaces the region by a larger one if it has fewer bytes. Contents are lost, because the old region is freed
  // first: the system may not have room for both.
  void grow_to(size_t bytes) {
    if (bytes <= bytes_) return;
    *this = Arena();
    *this = Arena(bytes);
  }

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace runner::backends
