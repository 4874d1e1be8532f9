// Memory that ranks share: processes, each through a SharedMemory of its own, or threads, through one.  It has no name
// in any file system, and is gone with the last of them.
//
// Thread safety: map() may be called from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

#include "backends/runtime/descriptor.h"

namespace runner::backends {

class SharedMemory {
 public:
  // New and zeroed.  Throws Error(kRun) with the size when the system has not so much.
  explicit SharedMemory(size_t bytes);
  // What another process has made, through the descriptor that it has handed on, which is closed.
  static SharedMemory adopt(int descriptor);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }

  // When pages of memory are there: one that is missing when it is touched ends whoever does so.
  enum class Pages { kAtOnce, kWhenTouched };

  // Memory that comes later lies behind, from multiples of page_bytes() on.  One rank makes it, up to `end`, zeroed;
  // throws as the constructor.  Then each maps it, of which map() takes kOwners bytes for itself; threads get one
  // address for what was mapped last.  When the last pointer to it is gone, of any rank, the system has it back.
  static constexpr size_t kOwners = 64;
  static size_t page_bytes();
  void extend(size_t end, Pages pages = Pages::kAtOnce);
  std::shared_ptr<std::byte> map(size_t offset, size_t bytes, Pages pages = Pages::kAtOnce);
  // Closed when another program is executed, unless its flag is cleared.
  int descriptor() const { return file_.number(); }

 private:
  SharedMemory(Descriptor file, size_t bytes);

  const Descriptor file_;
  const size_t bytes_;
  std::byte* const data_;

  std::mutex mutex_;  // of what follows
  size_t newest_offset_ = 0;
  std::weak_ptr<std::byte> newest_;  // of what was mapped
};

// Has the pages of memory that is mapped given at once.  Throws Error(kRun) when the system has not so much; one that
// is too old to be asked gives them where they are touched.
void take_pages(std::span<std::byte> memory);

}  // namespace runner::backends
