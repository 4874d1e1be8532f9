// Memory that processes share, and that is gone with the last of them: it has no name in any file system.
#pragma once

#include <cstddef>
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
  // Closed when another program is executed, unless its flag is cleared.
  int descriptor() const { return descriptor_; }

 private:
  SharedMemory(int descriptor, size_t bytes);

  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace runner::backends
