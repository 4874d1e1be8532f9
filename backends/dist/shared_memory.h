// Memory shared by ranks: by processes, each with its own SharedMemory, or by threads with one. It has no name in a
// file system and disappears with its last user.
//
// Thread safety: map() may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "backends/dist/process_group.h"
#include "backends/runtime/descriptor.h"

namespace runner::backends {

class SharedMemory {
 public:
  // Creates zeroed memory. Throws Error(kRun) with the size if memory is exhausted.
  explicit SharedMemory(size_t bytes);
  // Opens the memory of another process through the descriptor passed on by it, and takes ownership of the descriptor.
  static SharedMemory adopt(int descriptor);
  // Opens the memory of another process of this user, which has it at `descriptor`. Throws Error(kRun).
  static SharedMemory open_of(int64_t pid, std::string_view descriptor);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, bytes_}; }

  // When pages are committed. If memory is exhausted, touching an uncommitted page kills the process.
  using Pages = ProcessGroup::Pages;

  // Memory added later follows at multiples of page_bytes(). One rank extends the file to `end`, zeroed; throws like
  // the constructor. Then each rank maps the range, of which map() uses kOwners bytes itself; threads share one mapping
  // of the newest range. The memory is returned to the system when the last pointer on any rank is gone.
  static constexpr size_t kOwners = 64;
  static size_t page_bytes();
  void extend(size_t end, Pages pages = Pages::kNow);
  std::shared_ptr<std::byte> map(size_t offset, size_t bytes, Pages pages = Pages::kNow);
  // Close-on-exec, unless that flag is cleared.
  int descriptor() const { return file_.number(); }

 private:
  SharedMemory(Descriptor file, size_t bytes, Pages pages);

  const Descriptor file_;
  const size_t bytes_;
  std::byte* const data_;

  std::mutex mutex_;  // guards the members below
  size_t newest_offset_ = 0;
  std::weak_ptr<std::byte> newest_;  // the newest mapping
};

// Commits the pages of mapped memory. Throws Error(kRun) if memory is exhausted. On kernels without
// MADV_POPULATE_WRITE, pages are committed on first touch.
void take_pages(std::span<std::byte> memory);

}  // namespace runner::backends
