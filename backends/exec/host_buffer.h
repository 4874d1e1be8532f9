// Buffer of a device that computes in host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "backends/exec/backend.h"
#include "backends/runtime/arena.h"

namespace runner::backends {

class HostBuffer : public Buffer {
 public:
  HostBuffer(std::shared_ptr<std::byte> memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}

  size_t bytes() const override { return bytes_; }
  std::byte* data() const { return memory_.get(); }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }

 private:
  const std::shared_ptr<std::byte> memory_;
  const size_t bytes_;
};

// Returns zeroed memory. Throws like Arena's constructor.
inline std::shared_ptr<std::byte> zeroed_memory(size_t bytes) {
  auto arena = std::make_shared<Arena>(bytes);
  return {arena, arena->data()};
}

}  // namespace runner::backends
