// Memory that processes share, and that is gone with the last of them: it has no name in any file system.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace runner::backends {

class SharedMemory {
 public:
  // New and zeroed.  Throws Error(kRun) with the size when the system has not so much.
  explicit SharedMemory(size_t bytes);
  // What another process has made, through the descriptor that it has handed on, which is closed.
  static SharedMemory adopt(int descriptor);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }

  // Memory that comes later lies behind, from multiples of page_bytes() on.  One process makes it, up to `end`, zeroed;
  // throws as the constructor.  Then each maps it; what it maps stays while it has a pointer to it.
  static size_t page_bytes();
  void extend(size_t end);
  std::shared_ptr<std::byte> map(size_t offset, size_t bytes) const;
  // Closed when another program is executed, unless its flag is cleared.
  int descriptor() const { return descriptor_; }

 private:
  SharedMemory(int descriptor, size_t bytes);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace runner::backends
